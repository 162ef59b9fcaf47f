"""`python -m tests.bench.instances`: what the idle platform weighs with two instances of every service.

Rule: the second instances are told what the first ones were, but for their names, ports and folders.
Proportional memory is summed over all processes, so what two share counts once.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Collection
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
from tests.bench.printing import facts, row

from headrace.embedded import processes, status
from headrace.embedded.services import SERVICES
from headrace.embedded.units import python_command, readiness
from headrace.testing.running import RunningPlatform, started_platform

READY_S_MAX = 120.0
SETTLED_S = 20.0
MB_MAX = 500


def main() -> None:
    """Measure it without nodes and with two."""
    print(facts())
    for nodes in (0, 2):
        options = ("--nodes", str(nodes), "--gpus", "simulated:8xH100-80GB")
        with started_platform(*options) as platform:
            weigh(platform, f"two instances of every service, {nodes} nodes")


def weigh(platform: RunningPlatform, name: str) -> None:
    """Start the second instances, let all of it rest, and sum up."""
    pids = {each.name: each.pid for each in status.report(platform.layout).processes}
    with ExitStack() as ending:
        for service in SERVICES:
            second = ending.enter_context(started(service, pids[service] or 0, platform.home))
            ending.callback(second.terminate)
            pids[f"{service}-2"] = second.pid
        time.sleep(SETTLED_S)
        known = set(pids.values())
        mb = {unit: _pss_bytes(pid, known) / 1e6 for unit, pid in pids.items() if pid}
    row(f"idle, {name}, PSS", f"{sum(mb.values()):.0f} MB", f"≤ {MB_MAX} MB")
    print("    " + ", ".join(f"{unit} {weight:.0f}" for unit, weight in mb.items()))


def started(service: str, first: int, home: Path) -> subprocess.Popen[bytes]:
    """A second instance of the service whose first one has this pid, once it is ready."""
    run_dir = home / f"{service}-2"
    run_dir.mkdir()
    env = {
        **psutil.Process(first).environ(),
        "HEADRACE_INSTANCE": f"{service}-2",
        "HEADRACE_HTTP": "127.0.0.1:0",
        "HEADRACE_RUN_DIR": str(run_dir),
    }
    with (run_dir / "log").open("wb") as log:
        command = python_command(f"headrace.{service}")
        process = subprocess.Popen(command, env=env, stdout=log, stderr=log)
    port_file = run_dir / f"{service}.port"
    if not processes.wait_until(lambda: bool(readiness(port_file)), READY_S_MAX):
        raise SystemExit(f"{service} does not start: {(run_dir / 'log').read_text()}")
    return process


def _pss_bytes(pid: int, known: Collection[int | None]) -> int:
    """Of the process and what it started, but for what is `known` by itself."""
    process, total = psutil.Process(pid), 0
    with suppress(psutil.NoSuchProcess):  # they begin and end
        total += process.memory_full_info().pss
        for child in process.children():
            total += 0 if child.pid in known else _pss_bytes(child.pid, known)
    return total


if __name__ == "__main__":
    main()

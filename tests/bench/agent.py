"""`make bench-agent`: what a node costs, with the machine's facts.

Rule: nothing here passes or fails; a figure is printed with its target and read by a person.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.bench.printing import facts, row

from headrace.embedded.nats import Nats
from headrace.node_agent import bench
from headrace.node_agent.supervision import kernel
from headrace.vault import new_signing_keys

SETTLED_S = 5  # what starting left to do is done
IDLE_S = 20


def main() -> None:
    """An idle agent first; then starts, shims and adoption."""
    print(facts())
    print("targets: agent ≤ 80 MB, ≤ 1 % of a core; ≥ 300 starts/s isolated, which delays a worker by "
          "≤ 5 ms; ≤ 5 MB of an attempt; adoption ≤ 2 s")  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        nats = Nats(Path(folder) / "nats")
        nats.start()
        try:
            idle(Path(folder), nats.url)
        finally:
            nats.stop()
    bench.main()


def idle(folder: Path, nats_url: str) -> None:
    """An agent that has nothing to do."""
    (folder / "grant.pub").write_bytes(new_signing_keys()[1])
    env = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(sys.path),
        "HEADRACE_NODE": "n1",
        "HEADRACE_NODE_DIR": str(folder / "node"),
        "HEADRACE_NODE_GPUS": "simulated:8xH100-80GB",
        "HEADRACE_NATS_URL": nats_url,
        "HEADRACE_KEYS_DIR": str(folder),
    }
    agent = subprocess.Popen((sys.executable, "-m", "headrace.node_agent"), env=env)
    try:
        time.sleep(SETTLED_S)
        before_s = cpu_s(agent.pid)
        time.sleep(IDLE_S)
        percent = (cpu_s(agent.pid) - before_s) / IDLE_S * 100
        row("idle agent, of one core", f"{percent:.2f} %", "≤ 1 %")
        row("idle agent, PSS", f"{bench.pss_kb(agent.pid) / 1000:.1f} MB", "≤ 80 MB")
    finally:
        agent.terminate()
        agent.wait()
        bench.stop_all(folder / "node")


def cpu_s(pid: int) -> float:
    """What the process has used of a core since its start."""
    return sum(int(ticks) for ticks in kernel.stat(pid)[11:13]) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()

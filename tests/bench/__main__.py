"""`make bench`: every figure the project speaks of, with the machine's facts.

Rule: nothing here passes or fails; a figure is printed with its target and read by a person.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.bench import jobs, log, processes
from tests.bench.platform import Platform
from tests.bench.printing import facts, row


def main() -> None:
    """Measure everything, one after the other, on a platform of its own."""
    print(f"{facts()}, fsync on, embedded servers")
    row("figure", "measured", "target")
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        platform = Platform(Path(folder))
        platform.up()
        try:
            measure(platform)
        finally:
            platform.down(for_good=True)


def measure(platform: Platform) -> None:
    """All figures. Idle ones first: nothing has run yet."""
    time.sleep(3)  # what starting left to do is done
    cpu_percent, memory_mb = processes.idle(platform.pids(), seconds=20)
    row("idle 2-node platform, of one core", f"{cpu_percent:.1f} %", "≤ 3 %")
    row("idle 2-node platform, PSS of its process tree", f"{memory_mb:.0f} MB", "≤ 600 MB")
    row("headrace ps, cold start, p95 of 20", f"{platform.ps_ms():.0f} ms", "≤ 300 ms")
    for name, value, target in asyncio.run(jobs.measure(platform)):
        row(name, value, target)
    for name, value, target in asyncio.run(log.measure(platform)):
        row(name, value, target)
    print(platform.say("verify"), end="")
    platform.down()
    began = time.monotonic()
    platform.up()
    row("platform ready, on an initialised data dir", f"{time.monotonic() - began:.1f} s", "≤ 6 s")
    bench = [sys.executable, "-m", "headrace.node_agent.bench"]
    done = subprocess.run(bench, capture_output=True, text=True, check=False)
    print(done.stdout or "node agent: no benchmark", end="")


if __name__ == "__main__":
    main()

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

from tests.bench import jobs, log, processes, slurm
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
    if slurm.is_there():
        slurm.measure()
    else:
        print("Slurm is not installed here: `make bench-slurm` measures beside it")


def measure(platform: Platform) -> None:
    """All figures. Idle ones first: nothing has run yet."""
    time.sleep(3)  # what starting left to do is done
    cpu_percent, memory_mb = processes.idle(platform.pids(), seconds=20)
    row("idle 2-node platform, of one core", f"{cpu_percent:.1f} %", "≤ 3 %")
    row("idle 2-node platform, PSS of its process tree", f"{memory_mb:.0f} MB", "≤ 600 MB")
    row("headrace ps, in a shell, p50", f"{platform.typed_ms('ps'):.0f} ms", "≤ 120 ms")
    run_ms = platform.typed_ms("run", "--gpus", "1", "--name", "t", "--", "true")
    row("headrace run -- true, in a shell, p50", f"{run_ms:.0f} ms", "≤ 150 ms")
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

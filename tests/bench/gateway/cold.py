"""How long the command line takes from nothing."""

from __future__ import annotations

import subprocess
import time

import psutil
from tests.bench.platform import HEADRACE
from tests.bench.printing import row

from headrace.testing.running import RunningPlatform

TIMES = 20


def measure(platform: RunningPlatform) -> None:
    """`--help` and `ps`, twenty times each."""
    for words in (("--help",), ("ps",)):
        taken_ms, before_s = [], _children_s()
        for _ in range(TIMES):
            began = time.perf_counter()
            subprocess.run(
                [HEADRACE, *words], env=platform.env, stdout=subprocess.DEVNULL, check=True
            )
            taken_ms.append((time.perf_counter() - began) * 1000)
        each_ms = (_children_s() - before_s) / TIMES * 1000
        p95 = sorted(taken_ms)[int(TIMES * 0.95) - 1]
        name = f"headrace {' '.join(words)}, cold, p95 of {TIMES}"
        row(name, f"{p95:.0f} ms", f"≤ 300 ms   ({each_ms:.0f} ms of a core)")


def _children_s() -> float:
    times = psutil.Process().cpu_times()
    return float(times.children_user + times.children_system)

"""What processes cost while nothing happens."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress

import psutil


def idle(pids: Sequence[int], seconds: float) -> tuple[float, float]:
    """Percent of one core over `seconds`, and proportional memory in MB (10⁶ bytes)."""
    before = _cpu_s(pids)
    time.sleep(seconds)
    percent = (_cpu_s(pids) - before) / seconds * 100
    memory = 0
    for pid in pids:
        with suppress(psutil.Error):
            memory += psutil.Process(pid).memory_full_info().pss
    return percent, memory / 1e6


def _cpu_s(pids: Sequence[int]) -> float:
    total = 0.0
    for pid in pids:
        with suppress(psutil.Error):
            times = psutil.Process(pid).cpu_times()
            total += times.user + times.system
    return total

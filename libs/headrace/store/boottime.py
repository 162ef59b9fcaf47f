"""How long this machine has run: what no setting of a clock moves."""

from __future__ import annotations

import functools
import time
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boottime() -> tuple[str, int]:
    """The id of this boot, and microseconds since then, time asleep included; the id is empty where the
    kernel gives none.
    """
    return _boot(), time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


@functools.cache
def _boot() -> str:
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""

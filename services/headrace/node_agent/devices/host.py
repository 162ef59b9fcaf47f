"""What the machine has beside its devices."""

from __future__ import annotations

import os


def cpu_milli() -> int:
    """Thousandths of the CPU cores this process may run on."""
    return 1000 * len(os.sched_getaffinity(0))


def memory_bytes() -> int:
    """The machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")

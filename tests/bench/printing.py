"""How figures are printed: the machine they were measured on, then one row each with its target."""

from __future__ import annotations

import os
import platform
from pathlib import Path

ROWS = "{:<58} {:>14}   {}"


def row(name: str, value: str, target: str) -> None:
    """One figure beside its target."""
    print(ROWS.format(name, value, target), flush=True)


def facts() -> str:
    """What the figures were measured on."""
    cpu = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
         if line.startswith("model name")), "unknown",
    )  # fmt: skip
    return (
        f"{os.cpu_count()} × {cpu}, Linux {platform.release()}, "
        f"Python {platform.python_version()}, load before {os.getloadavg()[0]:.2f}"
    )

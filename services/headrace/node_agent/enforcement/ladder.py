"""Which rung holds a worker to its share, and how much that is.

Rule: pure. The strictest rung that its devices allow: a slice, then MPS, then the watch. A worker
with whole devices needs none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.events.gangs import Share
from headrace.events.nodes import Device
from headrace.node_agent.enforcement import MIG, MPS, NONE, WATCH, Limit

WHOLE_MILLI = 1000
DRIVER_BYTES = 600 * 2**20  # what a driver holds for a process beside what the program asks for


def rung(
    shares: Sequence[Share], known: Mapping[str, Device], *, has_mps: bool, can_watch: bool
) -> str:
    """What holds a worker to these shares: mig, mps, watch or none. `has_mps` tells whether the
    devices are served by MPS, `can_watch` whether it is known who holds how much.
    """
    if shares and all(is_slice(share, known) for share in shares):
        return MIG
    if not parts_of(shares):
        return NONE
    if has_mps and len(shares) == 1:  # a process has one MPS daemon, and a daemon one device
        return MPS
    return WATCH if can_watch else NONE


def limits_of(shares: Sequence[Share], known: Mapping[str, Device]) -> dict[str, Limit]:
    """What a worker may hold of each device of which it has a part."""
    return {
        share.device: Limit(share.milli, known[share.device].memory_bytes * share.milli // 1000)
        for share in parts_of(shares)
        if share.device in known
    }


def parts_of(shares: Sequence[Share]) -> tuple[Share, ...]:
    """The shares that are not whole devices."""
    return tuple(share for share in shares if share.milli < WHOLE_MILLI)


def is_slice(share: Share, known: Mapping[str, Device]) -> bool:
    """Whether the share is of a slice, taken whole."""
    device = known.get(share.device)
    return device is not None and bool(device.profile) and share.milli == WHOLE_MILLI


def caps_of(limits: Mapping[str, Limit], known: Mapping[str, Device]) -> dict[str, str]:
    """The environment that asks frameworks to keep below the smallest of these limits: what a
    driver holds for the process is left room for.
    """
    if not limits:
        return {}
    smallest_bytes = min(limit.memory_bytes for limit in limits.values())
    fractions = [
        max(0, limit.memory_bytes - DRIVER_BYTES) * 1000 // max(1, known[name].memory_bytes)
        for name, limit in limits.items()
    ]
    fraction = f"0.{max(1, min(fractions)):03d}"
    return {
        "HEADRACE_GPU_MEMORY_BYTES": str(smallest_bytes),
        "HEADRACE_GPU_MEMORY_FRACTION": fraction,
        "XLA_PYTHON_CLIENT_MEM_FRACTION": fraction,
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    }

"""What a user reads whose worker ran out of its share: the share, the limit, and who held it.

Rule: pure. Always the three, whatever else is known.
"""

from __future__ import annotations

import re

import msgspec

from headrace.node_agent.enforcement import MIG, MPS, NONE, OVER_SHARE, WATCH, Limit
from headrace.node_agent.machine import End

KILLED_EXIT_CODE = 137
STOPPED = f"stopped: {OVER_SHARE}"  # what a supervisor says who was asked to end it for that

_OUT_OF_MEMORY = re.compile(
    rb"out.of.memory|OutOfMemory|RESOURCE_EXHAUSTED|MEMORY_ALLOCATION|ALLOC_FAILED", re.IGNORECASE
)
_HOLDERS = {
    MIG: "its slice",
    MPS: "MPS",
    WATCH: "the agent's watch",
    NONE: "nobody",
}


def overdrawn(end: End, limits: dict[str, Limit], held: dict[str, int]) -> End:
    """The end of a worker that was ended for holding too much. `held` is what it held of each
    device, as far as that is known.
    """
    device, limit = next(iter(limits.items()), ("", Limit(0, 0)))
    for name in held:
        if name in limits:
            device, limit = name, limits[name]
    much = f"{size(held[device])}" if device in held else "more"
    text = f"out of memory: it held {much} of {device}; {allowed(limit, WATCH)}"
    code = end.exit_code or KILLED_EXIT_CODE
    return msgspec.structs.replace(end, reason=OVER_SHARE, exit_code=code, message=text)


def explained(end: End, limits: dict[str, Limit], enforcement: str) -> End:
    """The end of a worker that ran out of memory by its own account, with what it may hold."""
    shares = "; ".join(f"{name}: {allowed(limit, enforcement)}" for name, limit in limits.items())
    if not shares:
        return end
    return msgspec.structs.replace(end, message=f"{end.message}; out of memory on {shares}")


def bereft(end: End, devices: list[str]) -> End:
    """The end of a worker whose MPS daemons on these devices went away under it."""
    if not devices:
        return end
    text = f"{end.message}; the MPS daemon of {', '.join(devices)} had died"
    return msgspec.structs.replace(end, message=text)


def says_out_of_memory(output: bytes) -> bool:
    """Whether the end of a worker's output tells of memory that could not be had."""
    return _OUT_OF_MEMORY.search(output) is not None


def allowed(limit: Limit, enforcement: str) -> str:
    """A share, its limit and its enforcer."""
    share = f"{limit.milli / 1000:g}"
    by = _HOLDERS.get(enforcement, enforcement)
    return f"its share of {share} is {size(limit.memory_bytes)}, enforced by {by}"


def size(memory_bytes: int) -> str:
    """Bytes as people read them."""
    return f"{memory_bytes / 2**30:.1f} GiB"

"""The `traceparent` header: which trace something belongs to, and under which span.

After W3C Trace Context, version 00: `00-<32 hex trace>-<16 hex span>-<2 hex flags>`.
"""

from __future__ import annotations

import random
import re
from typing import NamedTuple

SAMPLED = "01"

_SHAPE = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_NOTHING = {"0" * 32, "0" * 16}
_random = random.Random()


class Traceparent(NamedTuple):
    """A trace's id, the id of one of its spans (hex), and the flags."""

    trace: str
    span: str
    flags: str = SAMPLED

    def __str__(self) -> str:
        return f"00-{self.trace}-{self.span}-{self.flags}"


def parse(header: str) -> Traceparent | None:
    """What the header says; None when it is not one (which is no error: a new trace begins)."""
    match = _SHAPE.fullmatch(header)
    if match is None:
        return None
    version, trace, span, flags, rest = match.groups()
    if version == "ff" or (version == "00" and rest) or {trace, span} & _NOTHING:
        return None
    return Traceparent(trace, span, flags)


def make() -> str:
    """The first traceparent of a new trace."""
    return str(Traceparent(f"{_random.getrandbits(128) or 1:032x}", span_id()))


def continued(header: str) -> str:
    """`header` when it is a traceparent, a new one otherwise."""
    return header if parse(header) is not None else make()


def child(header: str, span: str = "") -> str:
    """A span under `header`, in the same trace: `span` (16 hex), or a new id."""
    parent = parse(header) or parse(make())
    assert parent is not None
    return str(parent._replace(span=span or span_id()))


def span_id() -> str:
    """A new span's id, 16 hex."""
    return f"{_random.getrandbits(64) or 1:016x}"


def use_random(source: random.Random) -> None:
    """Draw ids from `source` from now on; a simulation gives its seeded one."""
    global _random  # noqa: PLW0603
    _random = source

"""What a check found."""

from __future__ import annotations

import msgspec


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """A broken promise: which (`I1` … `I17`), where in the log (0: not in the log), and how."""

    invariant: str
    position: int
    what: str

    def __str__(self) -> str:
        place = f" at position {self.position}" if self.position else ""
        return f"{self.invariant}{place}: {self.what}"

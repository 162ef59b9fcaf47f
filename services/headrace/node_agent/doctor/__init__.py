"""`headrace doctor`: whether this machine can be a good node, and what mends what is not well.

Rule: it looks and changes nothing. Every check says what it found, and one that is not well says
the command or the change that mends it.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Health = Literal["ok", "warning", "failed"]


class Check(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one look found. `warning`: the node works, and something it could do is missing."""

    name: str
    health: Health
    found: str
    fix: str = ""


def ok(name: str, found: str) -> Check:
    """All is well."""
    return Check(name=name, health="ok", found=found)


def warning(name: str, found: str, fix: str) -> Check:
    """It works, with something missing."""
    return Check(name=name, health="warning", found=found, fix=fix)


def failed(name: str, found: str, fix: str) -> Check:
    """It does not work."""
    return Check(name=name, health="failed", found=found, fix=fix)

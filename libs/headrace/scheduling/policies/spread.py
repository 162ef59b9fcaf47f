"""Take the emptiest node first, so that jobs disturb each other least."""

from __future__ import annotations


def rank(free_milli: int, capacity_milli: int) -> int:
    """The smaller the free part of the node, the worse."""
    return -(free_milli * 1000 // max(1, capacity_milli))

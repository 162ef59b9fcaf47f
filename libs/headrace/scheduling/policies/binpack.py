"""Fill the fullest node first, so that whole nodes stay free for large gangs."""

from __future__ import annotations


def rank(free_milli: int, capacity_milli: int) -> int:
    """Less free is better, whatever the node's size."""
    del capacity_milli
    return free_milli

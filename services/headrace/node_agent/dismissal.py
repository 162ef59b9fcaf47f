"""How an agent ends that placement does not believe to be its node.

Rule: only the agent ends; what runs on the machine runs on.
"""

from __future__ import annotations

import asyncio


class Dismissed(Exception):
    """Placement does not believe that this agent is its node, and the line says why."""


class Dismissal:
    """Given at most once, by a signed document."""

    def __init__(self) -> None:
        self._why = ""
        self._given = asyncio.Event()

    def give(self, why: str) -> None:
        """The agent is to end."""
        self._why = self._why or why
        self._given.set()

    async def given(self) -> None:
        """Wait for it. Raises `Dismissed`."""
        await self._given.wait()
        raise Dismissed(self._why)

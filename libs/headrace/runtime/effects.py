"""Runs a shell's effects behind the loop of turns, in order.

Rule: effects come after the append, at least once; they never delay a turn.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Sequence

from headrace.events import Entry
from headrace.runtime.service import Runtime, Shell

_LOG = logging.getLogger("headrace.effects")


class Effects:
    """One task that hands committed entries to the shell, whatever has gathered at a time."""

    def __init__(self, shell: Shell | None) -> None:
        self._shell = shell
        self._entries: list[Entry] = []
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def begin(self, runtime: Runtime) -> None:
        """Leadership began: the shell starts from `runtime.state`."""
        if self._shell is not None:
            self._entries.clear()
            self._task = asyncio.create_task(self._run(self._shell, runtime))

    def add(self, entries: Sequence[Entry]) -> None:
        """These were committed and folded."""
        if self._task is not None and entries:
            self._entries.extend(entries)
            self._wake.set()

    async def end(self) -> None:
        """Leadership ended."""
        if self._task is not None and self._shell is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None
            await self._shell.close()

    async def _run(self, shell: Shell, runtime: Runtime) -> None:
        await self._guarded(shell.lead(runtime))
        while True:
            await self._wake.wait()
            self._wake.clear()
            entries, self._entries = self._entries, []
            if entries:
                await self._guarded(shell.committed(entries))

    async def _guarded(self, effect: Awaitable[None]) -> None:
        """An effect that fails is repeated by whoever reconciles; the service goes on."""
        try:
            await effect
        except Exception as error:
            _LOG.warning("effect failed error=%s: %s", type(error).__name__, error)

"""Ending tasks and waiting for events, so that no cancellation is lost.

Rule: `asyncio.wait_for`, which libraries use too, can swallow a cancellation that comes just as its
result does; whoever ends a task looks whether it has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection
from typing import Any

CANCEL_S = 0.1  # between two tries to end a task


async def end_tasks(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel these tasks until they have ended."""
    while pending := [task for task in tasks if not task.done()]:
        for task in pending:
            task.cancel()
        await asyncio.wait(pending, timeout=CANCEL_S)


async def wait_until(event: asyncio.Event, timeout_s: float) -> None:
    """Wait for the event, at most so long."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await event.wait()

"""How a received message is handed on, whichever bus it came over.

Rule: whatever goes wrong in a handler concerns that message alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter

from headrace.bus.interface import Handler, Hear, Message

CANCEL_AGAIN_S = 0.2  # NATS's library swallows a cancellation that comes while it flushes

_LOG = logging.getLogger("headrace.bus")


async def handle(handler: Handler, message: Message, counters: Counter[str]) -> bool:
    """Call a handler; whether it returned without an exception."""
    try:
        await handler(message)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise  # the subscription is being stopped
        _failed(message, counters, "what it waited for was cancelled")
        return False
    except Exception as error:
        _failed(message, counters, f"{type(error).__name__}: {error}")
        return False
    return True


def hand_on(hear: Hear, message: Message, counters: Counter[str]) -> None:
    """The same for who only takes note."""
    try:
        hear(message)
    except Exception as error:
        _failed(message, counters, f"{type(error).__name__}: {error}")


async def end(task: asyncio.Task[None]) -> None:
    """Cancel a task, again until it takes notice; returns when it has ended."""
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=CANCEL_AGAIN_S)


def _failed(message: Message, counters: Counter[str], why: str) -> None:
    counters["handler_errors"] += 1
    _LOG.warning("handler failed subject=%s error=%s", message.subject, why)

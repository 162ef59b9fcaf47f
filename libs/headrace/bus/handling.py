"""How a received message is handed on, whichever bus it came over.

Rule: whatever goes wrong in a handler concerns that message alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter

from headrace.bus.interface import Handler, Message

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


def _failed(message: Message, counters: Counter[str], why: str) -> None:
    counters["handler_errors"] += 1
    _LOG.warning("handler failed subject=%s error=%s", message.subject, why)

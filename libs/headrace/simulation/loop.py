"""An event loop whose time is virtual: nothing waits, and the same program runs the same way again.

Rule: time moves only when nothing is ready to run, and then to the next timer. Sets of tasks and
futures iterate in the order they were made, so that no order depends on memory addresses.
"""

from __future__ import annotations

import asyncio
import itertools
from asyncio import base_events
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, cast


class Stuck(Exception):
    """Nothing is ready, no timer is set, and the program has not ended."""


class VirtualLoop(base_events.BaseEventLoop):
    """Runs callbacks and timers only; it has no sockets, files or signals."""

    def __init__(self) -> None:
        super().__init__()
        self._now_s = 0.0
        self._selector = self
        self._clock_resolution = 1e-9
        self._numbers = itertools.count(1)
        self.on_task: Callable[[asyncio.Task[Any]], None] = lambda _task: None
        self.set_task_factory(cast("Any", self._numbered_task))
        self.errors: list[str] = []
        self.set_exception_handler(self._keep_error)

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._now_s

    def create_future(self) -> asyncio.Future[Any]:
        """A future that hashes by its number."""
        future = _Future(loop=self)
        future.number = next(self._numbers)
        return future

    def select(self, timeout: float | None) -> list[Any]:
        """Let the time until the next timer pass."""
        if timeout is None:
            raise Stuck("nothing is ready and no timer is set")
        self._now_s += timeout
        return []

    def close(self) -> None:
        """Forget everything. The loop holds nothing of the system's."""
        if not self.is_closed():
            super().close()

    def _process_events(self, event_list: list[Any]) -> None:
        """There are none: see `select`."""

    def _write_to_self(self) -> None:
        """Nobody waits in another thread."""

    def _numbered_task(
        self,
        loop: asyncio.AbstractEventLoop,
        coro: Coroutine[Any, Any, Any],
        context: Context | None = None,
    ) -> asyncio.Task[Any]:
        task = _Task(coro, loop=loop, context=context)
        task.number = next(self._numbers)
        self.on_task(task)
        return task

    def _keep_error(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is not None and not isinstance(error, Exception):
            return  # a simulated kill, in whatever was running
        told = f"{type(error).__name__}: {error}" if error is not None else context["message"]
        self.errors.append(told)


class _Future(asyncio.Future[Any]):
    number = 0

    def __hash__(self) -> int:
        return self.number


class _Task(asyncio.Task[Any]):
    number = 0

    def __hash__(self) -> int:
        return self.number


def run(main: Coroutine[Any, Any, Any], loop: VirtualLoop) -> Any:
    """Run `main` to its end on the loop, then end every task that is left."""
    asyncio.set_event_loop(loop)
    try:
        return loop.run_until_complete(main)
    finally:
        left = sorted(asyncio.all_tasks(loop), key=lambda t: getattr(t, "number", 0))
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        asyncio.set_event_loop(None)
        loop.close()

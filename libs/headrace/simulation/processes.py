"""Simulated processes: groups of tasks that can be killed at any point.

Rule: a killed process does nothing any more that others can see. Its handles on store and bus are
cut first; then its tasks are cancelled, whatever their clean-up does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import ContextVar, copy_context
from typing import Any

_PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)


class Killed(BaseException):
    """Raised where a process is killed: no code of it may catch this."""


class Process:
    """Runs a program as tasks that all belong to it, until it ends or is killed.

    `ended` is called once, with the error that ended it or None.
    """

    def __init__(self, name: str, ended: Callable[[Process, BaseException | None], None]) -> None:
        self.name = name
        self.alive = True
        self._ended = ended
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._cuts: list[Callable[[], None]] = []

    def start(self, program: Coroutine[Any, Any, None]) -> None:
        """Begin to run."""
        context = copy_context()
        context.run(_PROCESS.set, self)
        main = context.run(asyncio.get_running_loop().create_task, program)
        main.add_done_callback(self._main_done)

    def on_kill(self, cut: Callable[[], None]) -> None:
        """Call this when the process is killed, before anything else happens."""
        self._cuts.append(cut)

    def kill(self) -> None:
        """SIGKILL, as far as anybody outside can tell."""
        if self.alive:
            self._vanish()
            self._ended(self, Killed())

    def adopt(self, task: asyncio.Task[Any]) -> None:
        """The task is part of this process."""
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    def _main_done(self, task: asyncio.Task[Any]) -> None:
        error = None if task.cancelled() else task.exception()
        if self.alive:
            self._vanish()
            self._ended(self, error)

    def _vanish(self) -> None:
        self.alive = False
        for cut in self._cuts:
            cut()
        for task in list(self._tasks):
            task.cancel()


def own(task: asyncio.Task[Any]) -> None:
    """Let a task that was just made belong to the process that made it: a loop's `on_task`."""
    process = _PROCESS.get()
    if process is not None:
        process.adopt(task)
        if not process.alive:
            task.cancel()

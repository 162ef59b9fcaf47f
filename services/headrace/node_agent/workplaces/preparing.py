"""Prepares the workplaces of attempts that are to start, each in a task of its own.

Rule: an attempt without a folder of its own waits for nothing. One that is not wanted any more while
its folder is prepared is dropped, and a failure is an end with one line, told like any other.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from pathlib import Path

from headrace.bundles.laying import Owner
from headrace.bundles.manifest import name_of
from headrace.bundles.objects import Damaged
from headrace.bus.agents import Assignment, Launch
from headrace.documents.workdir import GIT, bundle_of
from headrace.node_agent.machine import AttemptKey, End, Workplace
from headrace.node_agent.reconcile import key_of
from headrace.node_agent.tasks import end_tasks
from headrace.node_agent.workplaces import Unprepared
from headrace.node_agent.workplaces.fetching import Fetcher, Files
from headrace.node_agent.workplaces.repositories import Repositories
from headrace.node_agent.workplaces.trees import Trees

NOT_EXECUTABLE = 126  # as a shell has it

_LOG = logging.getLogger("headrace.node_agent")


class Workplaces:
    """What is being prepared, and what is ready and not asked for yet. `owner_of` tells whose the
    files of a user's job are (None: the agent's own).
    """

    def __init__(
        self,
        files: Files,
        node_dir: Path,
        owner_of: Callable[[str], Owner | None],
        repositories: Repositories,
    ) -> None:
        self._trees = Trees(node_dir)
        self._fetcher = Fetcher(files)
        self._owner_of = owner_of
        self._repositories = repositories
        self._tasks: dict[AttemptKey, asyncio.Task[Workplace | End]] = {}

    def prepared(
        self, assignment: Assignment, launch: Launch, then: Callable[[], None]
    ) -> Workplace | End | None:
        """The attempt's workplace, or why it cannot start. None: it is being prepared, and `then`
        will be called.
        """
        if not (bundle_of(launch.workdir) or launch.workdir.startswith(GIT)):
            return Workplace(cwd=launch.workdir)
        key = key_of(assignment)
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = asyncio.create_task(self._prepare(assignment, launch))
            task.add_done_callback(lambda done: None if done.cancelled() else then())
        if not task.done():
            return None
        del self._tasks[key]
        return task.result()

    def drop(self, key: AttemptKey) -> None:
        """The attempt is not to start any more."""
        task = self._tasks.pop(key, None)
        if task is not None:
            task.cancel()

    async def tend(self) -> None:
        """Look after what is kept, for ever."""
        await self._trees.tend()

    async def close(self) -> None:
        """Leave; what was being prepared is prepared anew."""
        await end_tasks(list(self._tasks.values()))
        await self._trees.close()

    async def _prepare(self, assignment: Assignment, launch: Launch) -> Workplace | End:
        try:
            owner = None
            with contextlib.suppress(ValueError):  # who may run as nobody is told so at its start
                owner = self._owner_of(assignment.user)
            if launch.workdir.startswith(GIT):
                return await self._with_commit(assignment, launch.workdir, owner)
            return await self._with_tree(assignment, bundle_of(launch.workdir), owner)
        except (Unprepared, OSError) as error:
            line = getattr(error, "strerror", None) or str(error)
            _LOG.warning("not prepared job=%s: %s", assignment.job, line)
            message = f"cannot start: workdir: {line}"
            return End(reason="start-failed", exit_code=NOT_EXECUTABLE, message=message)

    async def _with_commit(
        self, assignment: Assignment, workdir: str, owner: Owner | None
    ) -> Workplace:
        root = self._trees.of(assignment.project).root
        taken = root / "taken" / _name_of(assignment)
        taken.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        await self._repositories.check_out(workdir, root / "repositories", taken, owner)
        return Workplace(tree=str(taken))

    async def _with_tree(self, assignment: Assignment, tree: str, owner: Owner | None) -> Workplace:
        objects = self._trees.of(assignment.project)
        manifest = await self._fetcher.tree(objects, assignment.job, tree)
        name = _name_of(assignment)
        try:
            taken = await self._trees.take(assignment.project, tree, manifest, name, owner)
        except Damaged as error:
            objects.drop_damaged(error.digest)
            objects.drop_tree(tree)
            manifest = await self._fetcher.tree(objects, assignment.job, tree)
            _LOG.warning("a kept folder was damaged and fetched anew: %s", error)
            taken = await self._trees.take(assignment.project, tree, manifest, name, owner)
        return Workplace(tree=taken)


def _name_of(assignment: Assignment) -> str:
    """The name of an attempt's folder on its way."""
    return name_of(repr(key_of(assignment)).encode())[:32]

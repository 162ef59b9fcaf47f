"""Prepares the workplaces of attempts that are to start, each in a task of its own.

Rule: an attempt without a folder of its own waits for nothing. One that is not wanted any more while
its folder is prepared is dropped, and a failure is an end with one line, told like any other.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from headrace.bundles.laying import Owner
from headrace.bundles.manifest import OUTPUTS_BYTES_MAX, name_of
from headrace.bundles.objects import Damaged
from headrace.bus.agents import Assignment, Launch
from headrace.bus.files import AskKept, Kept
from headrace.documents.volume_file import OF_THE_MACHINE
from headrace.documents.workdir import GIT, bundle_of
from headrace.node_agent.folders import name_of as folder_of
from headrace.node_agent.machine import AttemptKey, End, Workplace
from headrace.node_agent.reconcile import key_of
from headrace.node_agent.supervision.processes import reason_of
from headrace.node_agent.supervision.protocol import CHECKPOINT, INPUTS, WORK
from headrace.node_agent.tasks import end_tasks
from headrace.node_agent.workplaces import Unprepared
from headrace.node_agent.workplaces.fetching import Fetcher, Files
from headrace.node_agent.workplaces.leaving import Leavings
from headrace.node_agent.workplaces.mounting import check_nested, input_at, variable_of, volume_at
from headrace.node_agent.workplaces.repositories import Repositories
from headrace.node_agent.workplaces.setups import Unready, code_of, is_of_one_folder, setup_of
from headrace.node_agent.workplaces.trees import Trees

NOT_EXECUTABLE = 126  # as a shell has it
FORGET_EVERY_S = 600.0

_LOG = logging.getLogger("headrace.node_agent")


class Workplaces:
    """What is being prepared, and what is ready and not asked for yet. `owner_of` tells whose the
    files of a job are, by its user and the number of its account (None: the agent's own). What is
    `hidden` is shown to no job.
    """

    def __init__(
        self,
        files: Files,
        node_dir: Path,
        owner_of: Callable[[str, int], Owner | None],
        repositories: Repositories,
        hidden: Iterable[str] = (),
    ) -> None:
        self._hidden = (str(node_dir), *hidden, *OF_THE_MACHINE)  # wherever a link leads
        self._files, self._node_dir = files, node_dir
        self._trees = Trees(node_dir)
        self._fetcher = Fetcher(files)
        self.leavings = Leavings(files, node_dir)
        self._owner_of = owner_of
        self._repositories = repositories
        self._tasks: dict[AttemptKey, asyncio.Task[Workplace | End]] = {}

    def prepared(
        self, assignment: Assignment, launch: Launch, then: Callable[[], None]
    ) -> Workplace | End | None:
        """The attempt's workplace, or why it cannot start. None: it is being prepared, and `then`
        will be called.
        """
        has_code = bundle_of(launch.workdir) or launch.workdir.startswith(GIT)
        has_setup = (launch.setup or launch.python) and not launch.image
        if not (has_code or launch.mounts or has_setup or assignment.checkpoint):
            return Workplace(cwd=launch.workdir, outputs=launch.outputs)
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
        await asyncio.gather(self._trees.tend(), self._forget_along())

    async def _forget_along(self) -> None:
        """Forget what the platform has forgotten, such as what an erased project left here."""
        while True:
            for project, objects in list(self._trees.projects()):
                asked = AskKept(project=project, trees=tuple(objects.trees()))
                with contextlib.suppress(Unprepared):
                    kept = await self._files.ask("kept", asked, Kept)
                    trees, erased_at_s = frozenset(kept.trees), kept.erased_at_us / 1e6
                    await asyncio.to_thread(self._trees.forget, project, trees, erased_at_s)
            await asyncio.sleep(FORGET_EVERY_S)

    async def close(self) -> None:
        """Leave; what was being prepared is prepared anew."""
        await end_tasks(list(self._tasks.values()))
        await self._trees.close()

    async def _prepare(self, assignment: Assignment, launch: Launch) -> Workplace | End:
        """All that is written here is on the node's own disk: one that is full is the node's fault. Volumes
        are looked at only, so that who fills one does not take the node from others.
        """
        owner = None
        with contextlib.suppress(ValueError):  # who may run as nobody is told so at its start
            owner = self._owner_of(assignment.user, assignment.account)
        what = "workdir"
        try:
            place, code = await self._with_code(assignment, launch, owner)
            if not launch.image:
                what = "setup"
                where = self._setups_of(assignment, launch, code)
                setup = setup_of(launch, code, where, owner)
                place = msgspec.structs.replace(place, setup=setup)
            what = "checkpoint"
            place = await self._with_checkpoint(place, assignment, owner)
            what = "volumes"
            place = await self._with_mounts(place, assignment, launch, owner)
        except (Unprepared, Unready, OSError) as error:
            line = getattr(error, "strerror", None) or str(error)
            _LOG.warning("not prepared job=%s %s: %s", assignment.job, what, line)
            message = f"cannot start: {what}: {line}"
            reason = reason_of(error) if isinstance(error, OSError) else "start-failed"
            return End(reason=reason, exit_code=NOT_EXECUTABLE, message=message)
        return msgspec.structs.replace(place, outputs=launch.outputs)

    async def _with_code(
        self, assignment: Assignment, launch: Launch, owner: Owner | None
    ) -> tuple[Workplace, str]:
        """With what stands for the code in the key of its setup; a folder of the node is not looked
        into, so that "" stands for it: what is set up there is not kept.
        """
        workdir = launch.workdir
        if workdir.startswith(GIT):
            return await self._with_commit(assignment, workdir, owner)
        if bundle_of(workdir):
            return await self._with_tree(assignment, launch, owner)
        return Workplace(cwd=workdir), "" if workdir else "no code"

    def _setups_of(self, assignment: Assignment, launch: Launch, code: str) -> Path:
        if code and not is_of_one_folder(launch.setup):
            return self._trees.of(assignment.project).root / "setups"
        return self._node_dir / folder_of(key_of(assignment)) / "setups"

    async def _with_mounts(
        self, place: Workplace, assignment: Assignment, launch: Launch, owner: Owner | None
    ) -> Workplace:
        moves, mounts, links = list(place.moves), list(place.mounts), list(place.links)
        env: dict[str, str] = {}
        for number, mount in enumerate(launch.mounts):
            is_below = not mount.path.startswith("/")
            if mount.job:
                shown = input_at(mount, number)
                where = f"{WORK}/{mount.path}" if is_below else f"{INPUTS}/{number}"
                moves.append((await self._input(assignment, mount.job, number, owner), where))
            else:
                path = launch.volumes.get(mount.volume, "")
                contained = bool(launch.image)
                shown = await asyncio.to_thread(
                    volume_at, mount, path, contained=contained, hidden=self._hidden
                )
                links += [(mount.path, path, mount.read_only)] if is_below and not contained else []
                where = f"{{}}/{WORK}/{mount.path}" if is_below else mount.path
                env[variable_of(mount.volume)] = where
            mounts += [shown] if shown is not None else []
        if launch.image:
            await asyncio.to_thread(check_nested, mounts)
        return msgspec.structs.replace(
            place, moves=tuple(moves), mounts=tuple(mounts), links=tuple(links), env=env
        )

    async def _with_checkpoint(
        self, place: Workplace, assignment: Assignment, owner: Owner | None
    ) -> Workplace:
        """With what an earlier attempt saved, wherever it ran."""
        if not assignment.checkpoint:
            return place
        objects = self._trees.of(assignment.project)
        fetched = await self._fetcher.tree(
            objects, assignment.job, assignment.checkpoint, OUTPUTS_BYTES_MAX
        )
        name = f"{_name_of(assignment)}.checkpoint"
        laid = await self._trees.lay(assignment.project, fetched.manifest, name, owner)
        return msgspec.structs.replace(place, moves=(*place.moves, (laid, CHECKPOINT)))

    async def _input(
        self, assignment: Assignment, of: str, number: int, owner: Owner | None
    ) -> str:
        """A copy of what an earlier job left behind."""
        objects = self._trees.of(assignment.project)
        manifest = await self._fetcher.outputs(objects, assignment.job, of)
        name = f"{_name_of(assignment)}.{number}"
        return await self._trees.lay(assignment.project, manifest, name, owner)

    async def _with_commit(
        self, assignment: Assignment, workdir: str, owner: Owner | None
    ) -> tuple[Workplace, str]:
        root = self._trees.of(assignment.project).root
        taken = root / "taken" / _name_of(assignment)
        taken.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        kept = root / "repositories"
        commit = await self._repositories.check_out(workdir, kept, taken, owner)
        return Workplace(tree=str(taken)), commit

    async def _with_tree(
        self, assignment: Assignment, launch: Launch, owner: Owner | None
    ) -> tuple[Workplace, str]:
        tree = bundle_of(launch.workdir)
        objects = self._trees.of(assignment.project)
        fetched = await self._fetcher.tree(objects, assignment.job, tree)
        name = _name_of(assignment)
        try:
            taken = await self._trees.take(assignment.project, tree, fetched, name, owner)
        except Damaged as error:
            objects.drop_damaged(error.digest)
            objects.drop_tree(tree)
            fetched = await self._fetcher.tree(objects, assignment.job, tree)
            _LOG.warning("a kept folder was damaged and fetched anew: %s", error)
            taken = await self._trees.take(assignment.project, tree, fetched, name, owner)
        return Workplace(tree=taken), code_of(launch.setup, fetched.manifest, tree)


def _name_of(assignment: Assignment) -> str:
    """The name of an attempt's folder on its way."""
    return name_of(repr(key_of(assignment)).encode())[:32]

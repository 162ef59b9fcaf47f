"""Answers node agents that ask for files of jobs, or bring them.

Rule: a node gets files of a project only for a job of that project that is placed on it as the log
has it; what it brings is kept for that project and no other.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import msgspec

from headrace.bundles.manifest import OUTPUTS_BYTES_MAX, BadManifest, is_name
from headrace.bundles.objects import Damaged, Objects
from headrace.bus import subjects
from headrace.bus.files import (
    PART_BYTES_MAX,
    PARTS_MAX,
    AskKept,
    AskMissing,
    AskOutputs,
    GetParts,
    KeepTree,
    Kept,
    Missing,
    Outputs,
    Parts,
    Put,
    PutPart,
    SayDamaged,
    packed,
    unpacked,
)
from headrace.bus.interface import Bus, BusError, Message, Subscription
from headrace.gateway.errors import GatewayError
from headrace.gateway.follower import Follower
from headrace.gateway.keeping import Keeper
from headrace.gateway.projection import Job

GROUP = "gateway"  # one of several gateways answers
ANSWERING_MAX, ANSWERING_NODE_MAX = 256, 16  # at once, in all and for one node; nodes ask again
BEHIND_S_MAX = 3.0  # how long a placement may not be known here yet

_LOG = logging.getLogger("headrace.gateway")


class NodeFiles:
    """Serves the nodes while this gateway runs."""

    def __init__(
        self,
        bus: Bus,
        follower: Follower,
        keeper: Keeper,
        outputs_of: Callable[[str, str], Awaitable[Job]],
    ) -> None:
        self._bus, self._follower, self._keeper = bus, follower, keeper
        self._outputs_of = outputs_of
        self._subscription: Subscription | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._answering: Counter[str] = Counter()  # by node
        self._on: dict[str, tuple[type[Any], Callable[[str, Any], Awaitable[msgspec.Struct]]]] = {
            "get": (GetParts, self._get),
            "missing": (AskMissing, self._missing),
            "put": (PutPart, self._put),
            "keep": (KeepTree, self._keep),
            "kept": (AskKept, self._kept),
            "outputs": (AskOutputs, self._outputs),
            "damaged": (SayDamaged, self._damaged),
        }

    async def open(self) -> None:
        """Start answering. Raises `BusError`."""
        self._subscription = await self._bus.subscribe(subjects.FILES_ASKED, self._asked, GROUP)

    async def close(self) -> None:
        """Answer nobody any more."""
        if self._subscription is not None:
            await self._subscription.stop()
        for task in self._tasks:
            task.cancel()

    async def _asked(self, message: Message) -> None:
        node = message.subject.split(".")[2]
        has_room = self._answering.total() < ANSWERING_MAX
        if not has_room or self._answering[node] >= ANSWERING_NODE_MAX or not message.reply:
            return
        task = asyncio.create_task(self._answer(message))
        self._tasks.add(task)
        self._answering[node] += 1
        task.add_done_callback(partial(self._answered, node))

    def _answered(self, node: str, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._answering[node] -= 1
        if not self._answering[node]:
            del self._answering[node]

    async def _answer(self, message: Message) -> None:
        _, _, node, _, _, what = message.subject.split(".")
        known = self._on.get(what)
        if known is None:
            return
        kind, answer = known
        try:
            said: msgspec.Struct = await answer(node, unpacked(message.data, kind))
        except GatewayError as error:
            said = Put(refused=str(error).removeprefix("refused: "))
        except (msgspec.MsgspecError, ValueError, OSError) as error:
            line = getattr(error, "strerror", None) or str(error)
            _LOG.warning("files not served node=%s what=%s: %s", node, what, line)
            said = Put(refused=f"the platform cannot: {line}")  # every answer has this field
        try:
            await self._bus.publish(message.reply, packed(said))
        except BusError as error:
            _LOG.warning("node not answered node=%s error=%s", node, type(error).__name__)

    async def _project(self, node: str, job_id: str) -> str:
        """The project of a job on this node. Raises `ValueError` when it is not there."""
        deadline_s = asyncio.get_running_loop().time() + BEHIND_S_MAX
        while True:
            job = self._follower.projection.live.get(job_id)
            if job is not None and any(worker.node == node for worker in job.workers):
                return job.project
            left_s = deadline_s - asyncio.get_running_loop().time()
            if left_s <= 0 or not await self._follower.changed(left_s):
                raise ValueError(f"job {job_id[:80]} is not placed on {node}")

    async def _get(self, node: str, asked: GetParts) -> Parts:
        objects = self._keeper.of(await self._project(node, asked.job))
        wanted = sum(part.bytes_max for part in asked.parts)
        if wanted > PART_BYTES_MAX or len(asked.parts) > PARTS_MAX:
            raise ValueError(f"more than {PART_BYTES_MAX} bytes at once")
        return await asyncio.to_thread(_read, objects, asked)

    async def _missing(self, node: str, asked: AskMissing) -> Missing:
        objects = self._keeper.of(await self._project(node, asked.job))
        found = await asyncio.to_thread(objects.missing, asked.digests[:PARTS_MAX])
        return Missing(digests=tuple(found))

    async def _put(self, node: str, asked: PutPart) -> Put:
        project = await self._project(node, asked.job)
        if not 0 <= asked.offset <= asked.offset + len(asked.data) <= asked.size:
            raise ValueError("a part lies outside of its content")
        if asked.size > OUTPUTS_BYTES_MAX:
            raise ValueError(f"a file of {asked.size} bytes; at most {OUTPUTS_BYTES_MAX} are kept")
        full = await self._keeper.received(project, len(asked.data))
        if full:
            return Put(refused=str(full).removeprefix("refused: "))
        objects = self._keeper.of(project)
        await asyncio.to_thread(
            objects.put_part, asked.digest, asked.size, asked.offset, asked.data
        )
        return Put()

    async def _keep(self, node: str, asked: KeepTree) -> Put:
        objects = self._keeper.of(await self._project(node, asked.job))
        return await asyncio.to_thread(_keep, objects, asked.tree)

    async def _kept(self, node: str, asked: AskKept) -> Kept:
        """Names are no secret to who has them; a project that was erased has none."""
        del node
        projection = self._follower.projection
        if asked.project not in projection.queues or not self._follower.ready:
            return Kept(refused="not known here")
        here = frozenset(await asyncio.to_thread(self._keeper.of(asked.project).trees))
        return Kept(
            trees=tuple(name for name in asked.trees if name in here),
            erased_at_us=projection.erased_at_us.get(asked.project, 0),
        )

    async def _outputs(self, node: str, asked: AskOutputs) -> Outputs:
        found = await self._outputs_of(await self._project(node, asked.job), asked.of)
        if not found.outputs:
            return Outputs(refused=f"job {asked.of} left nothing behind (outputs:)")
        return Outputs(trees=tuple(sorted(found.outputs.items())))

    async def _damaged(self, node: str, asked: SayDamaged) -> Put:
        objects = self._keeper.of(await self._project(node, asked.job))
        if await asyncio.to_thread(objects.drop_damaged, asked.digest) and is_name(asked.tree):
            _LOG.error("a kept file was damaged tree=%s content=%s", asked.tree, asked.digest)
            objects.drop_tree(asked.tree)
        return Put()


def _read(objects: Objects, asked: GetParts) -> Parts:
    found = []
    for part in asked.parts:
        try:
            found.append(objects.read(part.digest, part.offset, part.bytes_max))
        except FileNotFoundError:
            return Parts(missing=part.digest)
    return Parts(parts=tuple(found))


def _keep(objects: Objects, tree: str) -> Put:
    try:
        with open(objects.path_of(tree), "rb") as file:
            missing = objects.put_tree(file.read(), OUTPUTS_BYTES_MAX)
    except (BadManifest, Damaged) as error:
        return Put(refused=str(error))
    return Put(refused=f"{len(missing)} of its files are missing" if missing else "")

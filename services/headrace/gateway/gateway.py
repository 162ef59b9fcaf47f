"""What every route works with: the projection, the log, the bus, and how a name finds its job."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from litestar.di import NamedDependency
from litestar.params import SkipValidation

from headrace.access.allowed import WHOLE_FLEET, Scope
from headrace.access.directory import Directory
from headrace.bus.agents import Reported
from headrace.bus.interface import Bus
from headrace.client.model import Answer, Description, JobRow
from headrace.events import tag_of
from headrace.events.gangs import GangGrown, GangPlaced, Worker
from headrace.events.nodes import Device
from headrace.gateway import choosing, describing, rows
from headrace.gateway.asking import Asker
from headrace.gateway.authenticating import Authenticator, Provider
from headrace.gateway.browsers import Browsers
from headrace.gateway.chunks import Chunks
from headrace.gateway.denials import Denials
from headrace.gateway.errors import Ambiguous, BadRequest, NotFound, NotReady
from headrace.gateway.evolve import evolve
from headrace.gateway.follower import Follower
from headrace.gateway.instances import InstancesHeard
from headrace.gateway.keeping import Keeper
from headrace.gateway.limiting import Limiter, Room, pages, streams, uploads
from headrace.gateway.logs import LogStreams
from headrace.gateway.node_files import NodeFiles
from headrace.gateway.openings import Openings
from headrace.gateway.projection import Job, Projection
from headrace.gateway.readings import Readings, Recorded, SignIns
from headrace.gateway.trust import PLAIN, Trust
from headrace.gateway.uses import UsesSaid
from headrace.runtime.health import MetricsToken
from headrace.runtime.progress import ProgressHeard
from headrace.runtime.reader import entry_of
from headrace.store.chained import read_one
from headrace.store.interface import Forked, Store, Stored, Unavailable
from headrace.trust.workspace_places import Places

NAMES_SHOWN_MAX = 5  # of those that a prefix could mean
STREAM_EVENTS_MAX = 500  # of one job, in its description
TASKS_SHOWN_MAX = 1_000
GRANTS = (tag_of(GangPlaced), tag_of(GangGrown))


class Gateway:
    """One gateway process. `token` is the platform's own, `vault_key` what secrets are sealed to,
    `files_dir` where files are kept, `trust` what machines that join are told, `provider` who
    vouches for people, `places` where workspaces are, `metrics_token` what its numbers are shown for.
    """

    def __init__(
        self,
        *,
        store: Store,
        bus: Bus,
        follower: Follower,
        token: str,
        vault_key: bytes,
        files_dir: Path,
        trust: Trust = PLAIN,
        provider: Provider | None = None,
        places: Places | None = None,
        metrics_token: MetricsToken | None = None,
    ) -> None:
        self.store, self.bus, self.follower = store, bus, follower
        self.vault_key, self.trust = vault_key, trust
        self.metrics_token = metrics_token or MetricsToken()
        self.limiter = Limiter(time.monotonic)
        self.strangers = Limiter(time.monotonic)
        self.rooms: defaultdict[str, Room] = defaultdict(Room)  # by noun
        self.chunks = Chunks(follower)
        self.asker = Asker(bus)
        follower.on_led = self.asker.ask_again
        self.denials = Denials(self.asker)
        self.readings = Readings(time.monotonic)
        self.entries = Recorded(time.monotonic)
        self.sign_ins = SignIns(self.asker)
        self.browsers = Browsers(time.monotonic)
        self.authenticator = Authenticator(
            token, self.directory, follower.now_us, provider, self.browsers
        )
        self.logs = LogStreams(bus, follower)
        self.instances = InstancesHeard(time.monotonic)
        self.progress = ProgressHeard(time.monotonic, self._is_placed)
        self.keeper = Keeper(files_dir, self._needed)
        self.streams, self.pages, self.uploads = streams(), pages(), uploads()
        self.uses = UsesSaid(bus)
        self.openings = Openings(time.monotonic)
        self.places = places or Places()
        self.node_files = NodeFiles(bus, follower, self.keeper, self.outputs_of)

    def _is_placed(self, node: str, said: Reported) -> bool:
        job = self.follower.projection.live.get(said.job)
        if job is None or (job.attempt, job.project) != (said.attempt, said.project):
            return False
        return any(worker.rank == said.rank and worker.node == node for worker in job.workers)

    @property
    def projection(self) -> Projection:
        """What people ask about. Raises `NotReady` until it was folded to the head once."""
        if not self.follower.ready:
            raise NotReady(f"starting: the log is read up to {self.follower.projection.position}")
        return self.follower.projection

    @property
    def directory(self) -> Directory:
        """Who there is, and what they may do."""
        return self.follower.projection.directory

    def scope(self, queue: str) -> Scope:
        """Where a department or project is in the tree; without a name the whole fleet."""
        return self.directory.scope(queue) if queue else WHOLE_FLEET

    async def visible(self, answer: Answer) -> Answer:
        """The same answer, once lists show what it says."""
        await self.follower.reached(answer.position)
        return answer

    async def job(
        self, name: str, index: int | None = None, sees: Callable[[str], bool] | None = None
    ) -> Job:
        """The job of this id, else of this name (of several a live one, then the newest), else of an
        unambiguous prefix of its id among the jobs of projects that are seen (None: all); with
        `index`, that task of it.

        Jobs that ended long ago are folded again from the log. Raises `NotFound`, `Ambiguous`.
        """
        found = (
            self.projection.job(name) or self._by_name(name, sees) or self._by_prefix(name, sees)
        )
        job_id = found.job if found else name
        if index is not None:
            job_id = f"{job_id}/{index}"
            found = self.projection.job(job_id)
        if found is None:
            found = await self._from_log(job_id)
        if found is None:
            raise NotFound(f"no job {job_id} is known (headrace ps --all)")
        return found

    def row(self, job: Job) -> JobRow:
        """The job as people see it, now."""
        return rows.job_row(self.projection, job, self.follower.now_us())

    async def description(self, job: Job) -> Description:
        """Everything about one job. Raises `NotReady`."""
        requested = None
        if job.group:
            first = await self.stream(job.group, limit=1)
            requested = first[0] if first else None
        known = (self.projection.job(name) for name in job.task_ids[:TASKS_SHOWN_MAX])
        row = self.row(job)
        return describing.describe(
            row,
            await self.stream(job.job),
            tasks=[self.row(task) for task in known if task],
            device=self._device,
            as_of_us=self.follower.now_us(),
            requested=requested,
            progress=self.progress.of(row.job, row.attempt),
        )

    async def stream(self, job_id: str, limit: int = STREAM_EVENTS_MAX) -> list[Stored]:
        """The events of one job. Raises `NotReady`."""
        try:
            return await self.store.read_stream(f"job/{job_id}", 0, limit)
        except Unavailable as error:
            raise NotReady("the log cannot be reached now") from error
        except Forked as error:
            raise NotReady(f"the log was changed: {error}; headrace verify tells more") from error

    async def document(self, stream: str) -> dict[str, Any] | None:
        """The document in force whose events are in this stream, as it was applied. Raises `NotReady`."""
        position = self.projection.documents.get(stream)
        if position is None:
            return None
        try:
            asked = entry_of(await read_one(self.store, position)).event
        except Unavailable as error:
            raise NotReady("the log cannot be reached now") from error
        text: str = getattr(asked, "document", "")
        fields: dict[str, Any] | None = msgspec.json.decode(text) if text else None
        return fields

    async def workers(self, job_id: str) -> dict[int, tuple[Worker, ...]]:
        """The workers of each attempt of a job. Raises `NotReady`."""
        found: dict[int, tuple[Worker, ...]] = {}
        for stored in await self.stream(job_id):
            event = entry_of(stored).event if stored.type in GRANTS else None
            if isinstance(event, GangPlaced | GangGrown):
                found[event.attempt] = (*found.get(event.attempt, ()), *event.workers)
        return found

    def _needed(self, project: str) -> frozenset[str]:
        """The folders that live jobs of a project work in, and read from."""
        projection = self.follower.projection
        live = [job for job in projection.live.values() if job.project == project]
        read = (projection.job(name) for job in live for name in job.inputs)
        found = {job.bundle for job in live} | {
            tree for job in live for tree in (*job.outputs.values(), *job.checkpoints.values())
        }
        return frozenset(found.union(*(job.outputs.values() for job in read if job is not None)))

    async def outputs_of(self, project: str, name: str) -> Job:
        """An ended job of the project, with what it left behind; of other projects' jobs nothing is
        told, not that there are any. Raises `GatewayError`.
        """
        try:
            found = await self.job(name, sees=project.__eq__)
        except NotFound:
            found = None
        if found is None or found.project != project:
            raise NotFound(f"no job {name} is known in project {project}")
        if not found.ended_at_us:
            raise BadRequest("job", name, f"has not ended yet: it is {found.state}")
        return found

    def _by_name(self, name: str, sees: Callable[[str], bool] | None) -> Job | None:
        found = choosing.called(self.projection, name, sees)
        of = {job.project: job for job in reversed(found)}
        if len(of) > 1:  # whoever cancels theirs must not end another project's
            shown = ", ".join(f"{of[project].job} of {project}" for project in sorted(of))
            raise Ambiguous(f"{name} could be {shown}")
        return found[0] if found else None

    def _by_prefix(self, prefix: str, sees: Callable[[str], bool] | None) -> Job | None:
        names = choosing.names_like(self.projection, prefix, sees)
        if len(names) > 1:
            shown = ", ".join(names[:NAMES_SHOWN_MAX])
            more = (
                f" and {len(names) - NAMES_SHOWN_MAX} more" if len(names) > NAMES_SHOWN_MAX else ""
            )
            raise Ambiguous(f"{prefix} could be {shown}{more}")
        return self.projection.job(names[0]) if names else None

    async def _from_log(self, job_id: str) -> Job | None:
        past = Projection()
        for event in await self.stream(job_id):
            evolve(past, entry_of(event))
        return past.job(job_id)

    def _device(self, name: str) -> Device | None:
        at = self.projection.devices.get(name)
        node = self.projection.nodes.get(at.node) if at is not None else None
        known = node.joined.devices if node is not None else ()
        return next((device for device in known if device.device == name), None)


Gate = NamedDependency[SkipValidation[Gateway]]

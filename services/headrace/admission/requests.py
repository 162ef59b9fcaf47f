"""What admission is asked for, and how a request becomes a fact.

Rule: here ids and trials are drawn and launches sealed, so that everything afterwards is pure.
"""

from __future__ import annotations

import base64
import binascii
import random
import re
from typing import Any

import msgspec

from headrace.admission.trials import Chance
from headrace.bus.agents import Launch
from headrace.bus.credentials import is_user_key, publisher_permissions, user_jwt
from headrace.bus.subjects import token
from headrace.documents import Plan, Tasks, draw, plan, read_job_json
from headrace.events import Event, Fact, Refusal
from headrace.events.access import (
    ProjectEraseRequested,
    PublisherCreated,
    PublisherRequested,
    SecretSetRequested,
)
from headrace.events.jobs import JobCancelRequested, JobRequested
from headrace.runtime.service import Request, Runtime
from headrace.vault.project_keys import ProjectKeys
from headrace.vault.sealing import seal

ID_LETTERS = "abcdefghijklmnopqrstuvwxyz234567"
ID_LENGTHS = (4, 6, 8)  # longer ones are tried when shorter ones are taken
SECRET_BYTES_MAX = 65_536

_VARIABLE = re.compile(r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")
_JOB_ID = re.compile(r"^[a-z0-9][a-z0-9-]{0,60}(/[0-9]{1,4})?$")


class _JobNamed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    job: str


class _SecretNamed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    sealed: str


class _PublisherNamed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    public_key: str


class Requests:
    """The receivers of admission's verbs. `chance` draws ids and trials."""

    def __init__(self, master_key: bytes, account_seed: str, chance: random.Random) -> None:
        self._master_key = master_key
        self._keys: ProjectKeys | None = None
        self._account_seed = account_seed
        self._chance = chance

    def keys(self, runtime: Runtime) -> ProjectKeys:
        """The projects' keys, in the vault of the service that runs."""
        if self._keys is None:
            self._keys = ProjectKeys(runtime.vault, self._master_key)
        return self._keys

    async def submit(self, request: Request, runtime: Runtime) -> Fact | Refusal:
        """`job.submit`: a job file."""
        job = read_job_json(request.body)
        if isinstance(job, Refusal):
            return job
        planned = plan(job)
        if isinstance(planned, Refusal):
            return planned
        if planned.project not in ("", request.project):
            rule = f"this door is for project {request.project}"
            return Refusal(field="project", value=planned.project, rule=rule)
        return await self._requested(request, runtime, planned)

    async def cancel(self, request: Request, _runtime: Runtime) -> Fact | Refusal:
        """`job.cancel`: `{"job": id}`."""
        named = _decoded(request.body, _JobNamed)
        if isinstance(named, Refusal):
            return named
        if not _JOB_ID.match(named.job):
            return Refusal(field="job", value=_shown(named.job), rule="is not a job's id")
        return JobCancelRequested(job=named.job, project=request.project, user=request.actor)

    async def set_secret(self, request: Request, runtime: Runtime) -> Fact | Refusal:
        """`secret.set`: `{"name", "sealed"}`, the value sealed to the vault's public key."""
        named = _decoded(request.body, _SecretNamed)
        if isinstance(named, Refusal):
            return named
        if not _VARIABLE.match(named.name):
            rule = "is no name of an environment variable"
            return Refusal(field="name", value=_shown(named.name), rule=rule)
        try:
            box = base64.b64decode(named.sealed, validate=True)
        except binascii.Error:
            return Refusal(field="sealed", rule="is not base64")
        if not 0 < len(box) <= SECRET_BYTES_MAX:
            return Refusal(field="sealed", rule=f"has 1 to {SECRET_BYTES_MAX} bytes")
        version = self._letters(16)
        await runtime.vault.put_secret(request.project, named.name, version, box)
        return SecretSetRequested(
            project=request.project, name=named.name, version=version, user=request.actor
        )

    async def create_publisher(self, request: Request, _runtime: Runtime) -> Fact | Refusal:
        """`publisher.create`: `{"name", "public_key"}`."""
        named = _decoded(request.body, _PublisherNamed)
        if isinstance(named, Refusal):
            return named
        try:
            token(named.name)
        except ValueError as error:
            return Refusal(field="name", value=_shown(named.name), rule=str(error)[-60:])
        if not is_user_key(named.public_key):
            rule = "is not the public NKey of a user (U…)"
            return Refusal(field="public_key", value=_shown(named.public_key), rule=rule)
        return PublisherRequested(
            project=request.project,
            name=named.name,
            public_key=named.public_key,
            user=request.actor,
        )

    async def erase(self, request: Request, _runtime: Runtime) -> Fact | Refusal:
        """`project.erase`: no body."""
        return ProjectEraseRequested(project=request.project, user=request.actor)

    async def answer(self, event: Event, _runtime: Runtime) -> dict[str, Any]:
        """A publisher's JWT, which says on the bus what its key may do. Not a secret."""
        if not isinstance(event, PublisherCreated):
            return {}
        permissions = publisher_permissions(event.project, event.name)
        name = f"{event.project}/{event.name}"
        return {"jwt": user_jwt(self._account_seed, event.public_key, name, permissions)}

    async def _requested(self, request: Request, runtime: Runtime, planned: Plan) -> JobRequested:
        job_id = self._new_id(planned.name, runtime.state.live)
        key_id, key = await self.keys(runtime).current(request.project)
        launch = Launch(
            command=planned.command,
            setup=planned.setup,
            env=planned.env,
            workdir=planned.workdir,
            processes=planned.processes,
        )
        tasks = planned.tasks
        return JobRequested(
            job=job_id,
            project=request.project,
            name=planned.name,
            user=request.actor,
            gang=planned.gang,
            launch=seal(key, msgspec.json.encode(launch), f"launch:{job_id}".encode()),
            launch_key=key_id,
            priority=planned.priority,
            preemptible=planned.preemptible,
            max_duration_us=planned.max_duration_us,
            secrets=planned.secrets,
            trials=self._drawn(tasks) if tasks else (),
            trials_parallel=tasks.parallel if tasks else 0,
            stop_after_failures=tasks.stop_after_failures if tasks else 0,
            kind_of_group=tasks.kind if tasks else "",
        )

    def _drawn(self, tasks: Tasks) -> tuple[dict[str, str], ...]:
        seeded = self._chance if tasks.seed is None else random.Random(tasks.seed)
        return draw(tasks, Chance(seeded))

    def _new_id(self, name: str, live: dict[str, Any]) -> str:
        for length in ID_LENGTHS:
            job_id = f"{name}-{self._letters(length)}"
            if job_id not in live:
                return job_id
        return f"{name}-{self._letters(16)}"

    def _letters(self, length: int) -> str:
        return "".join(self._chance.choices(ID_LETTERS, k=length))


def _decoded(body: bytes, kind: type[Any]) -> Any:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        return Refusal(field="request", rule=str(error)[:200])


def _shown(value: str) -> str:
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in value)[:80]

"""Opens what a job runs and seals it again, to the one node that will run it.

Rule: a launch is in clear only between these two seals, in this process, and is never kept.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hmac
from collections import OrderedDict

import msgspec

from headrace.bus.agents import Launch
from headrace.bus.interface import Message
from headrace.documents import substitute, variable_of
from headrace.events import decode
from headrace.events.gangs import Worker
from headrace.events.jobs import JobRequested
from headrace.placement.gang_environment import environment_of, processes_of, suggested
from headrace.placement.state import Job, State
from headrace.runtime import log_messages
from headrace.store.chained import read_one
from headrace.store.interface import Store, Stored, Vault
from headrace.vault import VaultError, open_sealed, open_with, seal_to
from headrace.vault.project_keys import ProjectKeys

REQUESTS_MAX = 4_096  # `job.requested` kept, still sealed, so that a sweep is read once
HEARD_BYTES_MAX = 16_384  # larger ones are read from the log when needed

_LAUNCH = msgspec.json.Decoder(Launch)


class Launches:
    """What each worker runs. `vault_key` opens secrets, `master_key` the projects' keys."""

    def __init__(self, store: Store, vault: Vault, *, master_key: bytes, vault_key: bytes) -> None:
        self._store, self._vault, self._vault_key = store, vault, vault_key
        self._keys = ProjectKeys(vault, master_key)
        self._requests: OrderedDict[int, Stored] = OrderedDict()

    def forget_keys(self) -> None:
        """A project was erased: its key must not be used again from memory."""
        self._keys.forget()

    def heard(self, message: Message) -> None:
        """`job.requested`s passed on the bus: their jobs will likely be placed soon."""
        with contextlib.suppress(msgspec.MsgspecError):
            for stored in log_messages.decode(message.data):
                if len(stored.data) <= HEARD_BYTES_MAX:
                    self._keep(stored)

    async def sealed(self, state: State, job_id: str, job: Job, worker: Worker) -> bytes:
        """The worker's launch, sealed to its node; empty when it can never be opened again.

        Raises `StoreError` when the log or the vault cannot be reached now.
        """
        run, machine = job.run, state.machines.get(worker.node)
        if run is None or machine is None:
            return b""
        public_key = machine.said.public_key
        requested = await self._requested(job.requested_at, job.group or job_id)
        try:
            launch = await self._opened(requested)
            launch = await self._completed(state, job_id, job, requested, launch)
            told = environment_of(job_id, job, run, worker.rank) | {
                "HEADRACE_GANG_KEY": self._gang_key(f"{job_id}/{run.attempt}")
            }
            launch = msgspec.structs.replace(
                launch,
                command=launch.commands.get(worker.role, launch.command),
                commands={},
                env=suggested(job, worker) | launch.env | told,
                gang_names=tuple(told),
                processes=processes_of(job, worker),
            )
            context = f"launch:{job_id}/{run.attempt}/{worker.rank}".encode()
            key = base64.b64decode(public_key, validate=True)
            return seal_to(key, msgspec.json.encode(launch), context)
        except (VaultError, binascii.Error, msgspec.MsgspecError):
            return b""

    def _gang_key(self, attempt: str) -> str:
        """What the workers of one attempt know each other by, and nobody else has: the same from
        every placement, and told to their nodes alone.
        """
        return hmac.digest(self._vault_key, f"gang:{attempt}".encode(), "sha256").hex()

    async def _requested(self, position: int, job_id: str) -> JobRequested:
        """The job's request: what the bus said is believed only where it is about this very job."""
        known = self._requests.get(position)
        if known is None or known.stream != f"job/{job_id}":
            known = await read_one(self._store, position)
        self._keep(known)
        event = decode(known.type, known.data)
        assert isinstance(event, JobRequested)  # admission names its own request
        return event

    def _keep(self, stored: Stored) -> None:
        self._requests[stored.position] = stored
        self._requests.move_to_end(stored.position)
        if len(self._requests) > REQUESTS_MAX:
            self._requests.popitem(last=False)

    async def _opened(self, requested: JobRequested) -> Launch:
        key = await self._keys.by_id(requested.launch_key)
        if key is None:
            raise VaultError("the project's key was dropped")
        context = f"launch:{requested.job}".encode()
        return _LAUNCH.decode(open_sealed(key, requested.launch, context))

    async def _completed(
        self, state: State, job_id: str, job: Job, requested: JobRequested, launch: Launch
    ) -> Launch:
        """With its templates filled in and its secrets' values."""
        drawn = requested.trials if job.group else ()
        params = drawn[job.index] if 0 <= job.index < len(drawn) else {}
        complete = substitute(
            launch, params=params, job=job_id, index=job.index, project=job.project
        )
        secrets: dict[str, str] = {}
        for name in requested.secrets:
            version = state.secrets.get(job.project, {}).get(name)
            box = await self._vault.secret(job.project, name, version) if version else None
            if box is not None:
                context = f"secret:{job.project}/{name}".encode()
                secrets[name] = open_with(self._vault_key, box, context).decode()
        env = dict(complete.env)
        if params:
            env["HEADRACE_PARAMS"] = msgspec.json.encode(params, order="sorted").decode()
            for name, value in params.items():
                env[variable_of(name)] = value
        volumes = {
            name: state.volumes[name].path for name in job.gang.volumes if name in state.volumes
        }
        return msgspec.structs.replace(complete, env=env, secrets=secrets, volumes=volumes)

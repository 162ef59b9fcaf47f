"""What admission is asked for, and how a request becomes a fact.

Rule: here ids and trials are drawn and launches sealed, so that everything afterwards is pure.
Nothing is kept in the vault for a project that does not exist or is being erased.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from headrace.admission.access_rules import being_erased, unknown_project
from headrace.admission.bodies import (
    Nothing,
    SecretNamed,
    WayNamed,
)
from headrace.admission.differing import differing
from headrace.admission.hearing import Hearing
from headrace.admission.ids import Ids
from headrace.admission.member_requests import MEMBER_RECEIVERS, credential_of
from headrace.admission.naming_rules import full_id, unknown
from headrace.admission.people_requests import PEOPLE_RECEIVERS
from headrace.admission.publisher_requests import PUBLISHER_RECEIVERS
from headrace.admission.sources import with_inputs, with_source
from headrace.admission.template_requests import TEMPLATE_RECEIVERS, job_file
from headrace.admission.trials import drawn
from headrace.admission.volume_requests import apply_volume, delete_volume
from headrace.admission.webhook_requests import answer_of, apply_webhook, delete_webhook
from headrace.bus.agents import Launch
from headrace.bus.credentials import publisher_permissions, user_jwt
from headrace.documents import JobFile, Plan, plan, read_job
from headrace.documents.workdir import bundle_of
from headrace.events import Event, Fact, Refusal, encode
from headrace.events.access import (
    ProjectEraseRequested,
    PublisherCreated,
    SecretSetRequested,
)
from headrace.events.jobs import JobCancelRequested, JobEnterRequested, JobRequested
from headrace.events.members import (
    CredentialIssued,
    JoinWaiting,
    MemberAdmitted,
    MemberRejected,
)
from headrace.events.pauses import JobPauseRequested, JobResumeRequested
from headrace.events.webhooks import WebhookConfigured
from headrace.runtime.asking import JobEnding, JobNamed, decoded, receives
from headrace.runtime.service import Receive, Request, Runtime
from headrace.store.interface import EVENT_BYTES_MAX
from headrace.vault.project_keys import ProjectKeys
from headrace.vault.sealing import seal

ANSWERS = {JoinWaiting: "waiting", MemberAdmitted: "approved", MemberRejected: "rejected"}
_NOT_LEADING = Refusal(field="request", rule="this instance stopped leading", instead="repeat it")


class Requests:
    """The receivers of admission's verbs. `master_key` wraps projects' keys, `account_seed` signs
    publishers' and nodes' credentials.
    """

    def __init__(self, master_key: bytes, account_seed: str) -> None:
        self._master_key = master_key
        self._account_seed = account_seed
        self._keys: ProjectKeys | None = None
        self._ids = Ids()

    def receivers(self) -> dict[str, Receive]:
        """What receives each verb."""
        return {
            "job.submit": self.submit,
            "job.cancel": _about_job(JobCancelRequested, JobEnding),
            "job.pause": _about_job(JobPauseRequested),
            "job.resume": _about_job(JobResumeRequested),
            "job.enter": _enter,
            "secret.set": self.set_secret,
            "project.erase": _erase,
            "volume.apply": apply_volume,
            "volume.delete": delete_volume,
            "webhook.apply": self.apply_webhook,
            "webhook.delete": delete_webhook,
            **TEMPLATE_RECEIVERS,
            **MEMBER_RECEIVERS,
            **PUBLISHER_RECEIVERS,
            **PEOPLE_RECEIVERS,
        }

    def keys(self, runtime: Runtime) -> ProjectKeys:
        """The projects' keys, cached for as long as this process runs."""
        if self._keys is None:
            self._keys = ProjectKeys(runtime.vault, self._master_key)
        return self._keys

    async def submit(self, request: Request, runtime: Runtime) -> Fact | Refusal:
        """`job.submit`: a job file."""
        asked = job_file(request, runtime.state)
        if isinstance(asked, Refusal):
            return asked
        job = read_job(asked.fields)
        if isinstance(job, JobFile):
            job = await with_source(job, request, runtime, self.keys(runtime))
        planned = job if isinstance(job, Refusal) else plan(job)
        if isinstance(planned, Plan):
            planned = with_inputs(planned, request, runtime)
        if isinstance(planned, Refusal):
            return asked.told(planned)
        if planned.project not in ("", request.project):
            rule = f"this door is for project {request.project}"
            return Refusal(field="project", value=planned.project, rule=rule)
        if not runtime.epoch:
            return _NOT_LEADING
        job_id = f"{planned.name}-{self._ids.next(runtime.epoch)}"
        key_id, launch = "", b""
        if await _project_refusal(request.project, runtime) is None:
            key_id, launch = await self._sealed(request.project, job_id, planned, runtime)
        requested = msgspec.structs.replace(
            _requested(request, planned, job_id),
            launch=launch,
            launch_key=key_id,
            template=asked.template,
            template_at=asked.at,
            template_fields=asked.from_template,
        )
        size = len(encode(requested))
        if size > EVENT_BYTES_MAX:
            rule = f"the job comes to {size} bytes; at most {EVENT_BYTES_MAX} are kept of one"
            return Refusal(field="document", rule=rule, instead="put large data into files")
        return requested

    async def set_secret(self, request: Request, runtime: Runtime) -> Fact | Refusal:
        """`secret.set`: `{"name", "sealed"}`."""
        asked = decoded(request.body, SecretNamed)
        refusal = await _project_refusal(request.project, runtime)
        if isinstance(asked, Refusal) or refusal is not None:
            return asked if isinstance(asked, Refusal) else refusal or _NOT_LEADING
        if not runtime.epoch:
            return _NOT_LEADING
        version = self._ids.next(runtime.epoch)
        await runtime.vault.put_secret(request.project, asked.name, version, asked.box())
        return SecretSetRequested(
            project=request.project, name=asked.name, version=version, user=request.actor
        )

    async def apply_webhook(self, request: Request, runtime: Runtime) -> Fact | Refusal:
        """`webhook.apply`: its document."""
        return await apply_webhook(request, runtime, self.keys(runtime))

    async def answer(self, event: Event, runtime: Runtime) -> dict[str, Any]:
        """A publisher's or node's JWT, which says on the bus what its key may do and is no secret; a
        webhook's secret, which is.
        """
        if isinstance(event, WebhookConfigured):
            return await answer_of(event, self.keys(runtime))
        if isinstance(event, CredentialIssued):
            return credential_of(event, self._account_seed)
        if isinstance(event, JoinWaiting | MemberAdmitted | MemberRejected):
            return {"change": ANSWERS[type(event)]}
        if not isinstance(event, PublisherCreated):
            return {}
        durable = event.durable_since_us > 0
        permissions = publisher_permissions(event.project, event.name, durable=durable)
        name = f"{event.project}/{event.name}"
        expires_at_s = event.expires_at_us // 1_000_000
        jwt = user_jwt(
            self._account_seed, event.public_key, name, permissions, expires_at_s=expires_at_s
        )
        return {"jwt": jwt}

    async def differing(self, original: Event, other: Event, runtime: Runtime) -> tuple[str, ...]:
        """In which fields two job files differ that came under one key. Raises `StoreError`."""
        return await differing(original, other, self.keys(runtime))

    async def _sealed(
        self, project: str, job_id: str, planned: Plan, runtime: Runtime
    ) -> tuple[str, bytes]:
        """The id of the project's key, and what runs, sealed under it for this job."""
        key_id, key = await self.keys(runtime).current(project)
        launch = Launch(
            command=planned.command,
            setup=planned.setup,
            env=planned.env,
            workdir=planned.workdir,
            mounts=planned.mounts,
            outputs=planned.outputs,
            python=planned.python,
            framework=planned.framework,
            image=planned.image,
            shm_bytes=planned.shm_bytes,
            commands=planned.commands,
        )
        return key_id, seal(key, msgspec.json.encode(launch), f"launch:{job_id}".encode())


async def _enter(request: Request, runtime: Runtime) -> Fact | Refusal:
    """From the gateway, which then opens the way."""
    asked = decoded(request.body, WayNamed)
    if isinstance(asked, Refusal):
        return asked
    if Hearing(runtime.state).project_of(asked.job) != request.project:
        return unknown(asked.job, request.project)
    return JobEnterRequested(
        job=asked.job,
        project=request.project,
        user=request.actor,
        way=asked.way,
        rank=asked.rank,
        what=asked.what,
    )


@receives(Nothing)
def _erase(asked: Nothing, request: Request) -> Fact | Refusal:
    del asked
    return ProjectEraseRequested(project=request.project, user=request.actor)


def _requested(request: Request, planned: Plan, job_id: str) -> JobRequested:
    tasks = planned.tasks
    return JobRequested(
        job=job_id,
        project=request.project,
        name=planned.name,
        user=request.actor,
        gang=planned.gang,
        launch=b"",
        launch_key="",
        priority=planned.priority,
        preemptible=planned.preemptible,
        max_duration_us=planned.max_duration_us,
        replace_after_us=planned.replace_after_us,
        retry=planned.retry,
        secrets=planned.secrets,
        trials=drawn(tasks, job_id) if tasks else (),
        trials_parallel=tasks.parallel if tasks else 0,
        stop_after_failures=tasks.stop_after_failures if tasks else 0,
        objective=tasks.objective if tasks else None,
        kind_of_group=tasks.kind if tasks else "",
        protected_minimum=planned.protected_minimum,
        checkpoint=planned.checkpoint,
        bundle=bundle_of(planned.workdir),
        inputs=tuple(mount.job for mount in planned.mounts if mount.job),
        after=planned.after,
        workspace=planned.workspace,
        key=request.key,
    )


def _about_job(make: Callable[..., Fact], kind: type[JobNamed] = JobNamed) -> Receive:
    """Receives `{"job": id}`, and what else `kind` has, or an unambiguous beginning of a live job's id. A job that is none of
    the project's is refused here: a fact that names it would stand in the stream of another's job.
    """

    async def receive(request: Request, runtime: Runtime) -> Fact | Refusal:
        asked = decoded(request.body, kind)
        if isinstance(asked, Refusal):
            return asked
        job = full_id(runtime.state, asked.job, request.project)
        if isinstance(job, Refusal):
            return job
        if Hearing(runtime.state).project_of(job) != request.project:
            return unknown(job, request.project)
        said = msgspec.structs.asdict(asked) | {"job": job}
        return make(project=request.project, user=request.actor, **said)

    return receive


async def _project_refusal(project: str, runtime: Runtime) -> Refusal | None:
    """Why nothing can be kept for the project now. A project that the state does not have is looked
    up in the log: it may have been made a moment ago. Raises `StoreError`.
    """
    refusal = being_erased(Hearing(runtime.state), project)
    if refusal is None:
        refusal = unknown_project(runtime.state, project)
        if refusal is not None and await runtime.store.read_stream(f"queue/{project}", 0, 1):
            return None
    return refusal

"""What a job takes over from earlier ones: code, image and volumes of the one that it names in
`from`, and what those left behind that its `volumes` name.

Rule: what the job file says itself is left alone, and everything taken over is checked as if the job
file had said it. Nothing else of the other job is read, and only of the same project.
"""

from __future__ import annotations

import msgspec

from headrace.admission.naming_rules import full_id
from headrace.admission.state import State
from headrace.bus.agents import Launch
from headrace.documents import JobFile, Plan
from headrace.events import Refusal, decode
from headrace.events.asked import Mount
from headrace.events.jobs import JobRequested
from headrace.runtime.service import Request, Runtime
from headrace.vault.project_keys import ProjectKeys
from headrace.vault.sealing import VaultError, open_sealed

_LAUNCH = msgspec.json.Decoder(Launch)


async def with_source(
    job: JobFile, request: Request, runtime: Runtime, keys: ProjectKeys
) -> JobFile | Refusal:
    """The job file with what it takes over. Raises `StoreError`."""
    if not job.source:
        return job
    state: State = runtime.state
    found = full_id(state, job.source, request.project)
    if isinstance(found, Refusal):
        return msgspec.structs.replace(found, field="from")
    stored = await runtime.store.read_stream(f"job/{found}", 0, 1)
    event = decode(stored[0].type, stored[0].data) if stored else None
    if not isinstance(event, JobRequested) or event.project != request.project:
        rule = f"is not a job of project {request.project}"
        return Refusal(field="from", value=job.source, rule=rule)
    key = await keys.by_id(event.launch_key) if event.launch_key else None
    try:
        launch = open_sealed(key or b"", event.launch, f"launch:{found}".encode())
    except (VaultError, ValueError):
        rule = "cannot be read any more: its project was erased"
        return Refusal(field="from", value=job.source, rule=rule)
    return _taken_over(job, _LAUNCH.decode(launch))


def with_inputs(planned: Plan, request: Request, runtime: Runtime) -> Plan | Refusal:
    """The same job, with the ids of the jobs whose outputs it wants: which one a name means must not
    change until it starts. One that is not known here may have ended long ago.
    """
    mounts = list(planned.mounts)
    for i, mount in enumerate(mounts):
        if not mount.job:
            continue
        found = full_id(runtime.state, mount.job, request.project)
        if isinstance(found, Refusal):
            return msgspec.structs.replace(found, field=f"volumes[{i}]")
        mounts[i] = msgspec.structs.replace(mount, job=found)
    return msgspec.structs.replace(planned, mounts=tuple(mounts))


def _taken_over(job: JobFile, launch: Launch) -> JobFile:
    has_interpreter = bool(job.image or job.python)
    return msgspec.structs.replace(
        job,
        workdir=job.workdir or launch.workdir,
        setup=job.setup or list(launch.setup),
        image=job.image if has_interpreter else launch.image,
        python=job.python if has_interpreter else launch.python,
        volumes=job.volumes or [_in_words(mount) for mount in launch.mounts],
    )


def _in_words(mount: Mount) -> str:
    what = mount.volume or f"job/{mount.job}"
    return f"{what}:{mount.path}" + (":ro" if mount.volume and mount.read_only else "")

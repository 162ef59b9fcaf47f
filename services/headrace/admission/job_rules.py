"""When a job is admitted, and what it is told when it is not.

Rule: what can never run under the project's limits is refused; what merely cannot run on today's
nodes is admitted with a warning that says so.
"""

from __future__ import annotations

import msgspec

from headrace.admission.access_rules import being_erased, unknown_project
from headrace.admission.dependency_rules import awaited
from headrace.admission.gang_rules import max_duration_us, refuse_gang, with_pools
from headrace.admission.hearing import Hearing
from headrace.admission.limit_rules import refuse_limits
from headrace.admission.room_rules import warning
from headrace.admission.volume_rules import unknown_volume
from headrace.documents import PRIORITIES
from headrace.documents.template_file import with_origin
from headrace.events import Decision, Refusal
from headrace.events.asked import Gang
from headrace.events.jobs import JobAdmitted, JobRefused, JobRequested


def requested(hearing: Hearing, position: int, event: JobRequested) -> Decision:
    """Admitted or refused."""
    state = hearing.state
    gang = with_pools(state, event.project, event.gang)
    refusal = _refusal(hearing, event, gang)
    after = awaited(hearing, event) if refusal is None else refusal
    if isinstance(after, Refusal):
        after = with_origin(after, event.template, event.template_fields)
        return JobRefused(job=event.job, project=event.project, refusal=after)
    return JobAdmitted(
        job=event.job,
        project=event.project,
        name=event.name,
        user=event.user,
        gang=gang,
        requested_at=position,
        priority=PRIORITIES.get(event.priority, PRIORITIES["medium"]),
        preemptible=event.preemptible,
        max_duration_us=max_duration_us(state, event.project, gang, event.max_duration_us),
        replace_after_us=event.replace_after_us,
        retry=event.retry,
        tasks=len(event.trials),
        tasks_parallel=event.trials_parallel,
        stop_after_failures=event.stop_after_failures,
        warning=warning(state, gang),
        protected_minimum=event.protected_minimum,
        checkpoint=event.checkpoint,
        after=after,
        objective=event.objective,
        template=event.template,
        template_at=event.template_at,
        idle_us=event.workspace.idle_us if event.workspace is not None else 0,
    )


def task(hearing: Hearing, group: JobAdmitted, index: int) -> JobAdmitted:
    """The task `index` of an admitted group; it waits for what the group still waits for."""
    return msgspec.structs.replace(
        group,
        job=f"{group.job}/{index}",
        group=group.job,
        index=index,
        tasks=0,
        tasks_parallel=0,
        objective=None,
        stop_after_failures=0,
        warning="",
        after=tuple(wanted for wanted in group.after if wanted.job in hearing.state.live),
    )


def _refusal(hearing: Hearing, event: JobRequested, gang: Gang) -> Refusal | None:
    state = hearing.state
    return (
        unknown_project(state, event.project)
        or being_erased(hearing, event.project)
        or _form(hearing, event)
        or _secrets(hearing, event)
        or unknown_volume(hearing, event)
        or refuse_gang(state, event.project, event.gang, gang)
        or refuse_limits(state, event, gang)
        or _room(hearing, event)
    )


def _form(hearing: Hearing, event: JobRequested) -> Refusal | None:
    """What the shell could not know when it recorded the request."""
    if hearing.is_taken(event.job):
        return Refusal(field="job", value=event.job, rule="is another job's id already")
    if not event.launch_key:
        rule = "did not exist yet when the job was received"
        return Refusal(field="project", value=event.project, rule=rule, instead="submit it again")
    return None


def _secrets(hearing: Hearing, event: JobRequested) -> Refusal | None:
    for name in event.secrets:
        if not hearing.has_secret(event.project, name):
            rule = f"project {event.project} has no secret of this name"
            instead = f"headrace secret set {name} --project {event.project}"
            return Refusal(
                field="secrets", value=name, rule=rule, instead=instead, unknown="secret"
            )
    return None


def _room(hearing: Hearing, event: JobRequested) -> Refusal | None:
    """Whoever has no room leaves room for others: each waiting job takes some of every service's
    time and memory.
    """
    state, wanted = hearing.state, max(1, len(event.trials))
    project, user = event.project, event.user
    for setting, has, whose in (
        ("jobs_per_project_max", hearing.live_of(project), f"project {project}"),
        ("jobs_per_user_max", hearing.live_of_user(project, user), f"{user} in project {project}"),
    ):
        most = state.setting(setting)
        if has + wanted > most:
            rule = f"{whose} may have at most {most} live jobs, tasks included ({state.set_by(setting)})"
            rule = f"{rule}, and has {has}"
            left = most - has
            instead = f"{left} more fit" if left > 0 else "submit it when some of them have ended"
            return Refusal(field="job", value=event.name, rule=rule, instead=instead)
    return None

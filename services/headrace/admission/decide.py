"""What admission decides: each request is answered by exactly one first decision.

Rule: a request is judged at its position in the log, in order; a group's tasks follow their group a
bounded number at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any

from headrace.admission import job_rules
from headrace.admission.state import LISTENS_TO, Group, State, evolve
from headrace.decider import Decider, Draft
from headrace.events import Decision, Refusal, access, jobs

PUBLISHERS_MAX = 1_000  # per project
SECRETS_MAX = 1_000  # per project


def decide(state: State, _now_us: int) -> Sequence[Draft]:
    """Answers to what is pending, then the next tasks of groups."""
    room = state.setting("drafts_max")
    drafts: list[Draft] = []
    for position, pending in state.pending.items():
        if len(drafts) >= room:
            return drafts
        drafts.append(
            Draft(
                event=_RULES[type(pending.event)](state, position, pending.event),
                causation=position,
                traceparent=pending.traceparent,
                actor=pending.actor,
            )
        )
    for group_id in state.unfinished:
        if len(drafts) >= room:
            break
        drafts.extend(_tasks(group_id, state.groups[group_id], room - len(drafts)))
    return drafts


def _tasks(group_id: str, group: Group, room: int) -> list[Draft]:
    """The group's next tasks: admitted one by one, or cancelled once the group is."""
    event = group.event
    if group.cancelling:
        return [
            Draft(
                event=jobs.JobCancelling(job=task, project=event.project, user=group.cancelling),
                traceparent=group.traceparent,
                actor=group.cancelling,
            )
            for task in list(group.uncancelled)[:room]
        ]
    last = min(event.tasks, group.expanded + room)
    return [
        Draft(
            event=job_rules.task(event, group_id, index),
            causation=event.requested_at,
            traceparent=group.traceparent,
        )
        for index in range(group.expanded, last)
    ]


def _cancel(state: State, _position: int, event: jobs.JobCancelRequested) -> Decision:
    job = state.live.get(event.job)
    if job is not None and job.project == event.project:
        return jobs.JobCancelling(job=event.job, project=event.project, user=event.user)
    if event.job in state.outcomes:
        outcome = state.outcomes[event.job]
        refusal = Refusal(field="job", value=event.job, rule=f"has already ended: {outcome}")
    else:
        own = [name for name, live in state.live.items() if live.project == event.project]
        near = get_close_matches(event.job, own[-1_000:], n=1)
        instead = f"did you mean {near[0]}?" if near else ""
        rule = f"is not a job of project {event.project}"
        refusal = Refusal(field="job", value=event.job, rule=rule, instead=instead)
    return jobs.JobCancelRefused(job=event.job, project=event.project, refusal=refusal)


def _secret(state: State, _position: int, event: access.SecretSetRequested) -> Decision:
    refusal = job_rules.project_known(state, event.project)
    if refusal is None and len(state.secrets.get(event.project, {})) >= SECRETS_MAX:
        rule = f"a project has at most {SECRETS_MAX} secrets"
        refusal = Refusal(field="secret", value=event.name, rule=rule)
    if refusal is not None:
        return access.SecretRefused(project=event.project, name=event.name, refusal=refusal)
    return access.SecretSet(project=event.project, name=event.name, version=event.version)


def _publisher(state: State, _position: int, event: access.PublisherRequested) -> Decision:
    refusal = job_rules.project_known(state, event.project)
    known = state.publishers.get(event.project, {})
    if refusal is None and event.name in known and known[event.name] != event.public_key:
        rule = "exists with another key"
        refusal = Refusal(
            field="publisher", value=event.name, rule=rule, instead="choose another name"
        )
    if refusal is None and len(known) >= PUBLISHERS_MAX:
        rule = f"a project has at most {PUBLISHERS_MAX} publishers"
        refusal = Refusal(field="publisher", value=event.name, rule=rule)
    if refusal is not None:
        return access.PublisherRefused(project=event.project, name=event.name, refusal=refusal)
    return access.PublisherCreated(
        project=event.project, name=event.name, public_key=event.public_key
    )


def _erase(state: State, _position: int, event: access.ProjectEraseRequested) -> Decision:
    refusal = job_rules.project_known(state, event.project)
    live = state.live_of.get(event.project, 0)
    if refusal is None and live:
        rule = f"{live} of its jobs have not ended"
        refusal = Refusal(
            field="project", value=event.project, rule=rule, instead="cancel them first"
        )
    if refusal is not None:
        return access.ProjectEraseRefused(project=event.project, refusal=refusal)
    return access.ProjectErased(project=event.project)


def _wakeup(state: State) -> int | None:
    """Nothing here depends on the clock; what is unfinished is decided in the next turn anyway."""
    del state
    return None


_RULES: dict[type, Callable[[State, int, Any], Decision]] = {
    jobs.JobRequested: job_rules.requested,
    jobs.JobCancelRequested: _cancel,
    access.SecretSetRequested: _secret,
    access.PublisherRequested: _publisher,
    access.ProjectEraseRequested: _erase,
}

DECIDER: Decider[State] = Decider(
    service="admission",
    state=State,
    initial=State,
    evolve=evolve,
    decide=decide,
    wakeup=_wakeup,
    listens_to=LISTENS_TO,
)

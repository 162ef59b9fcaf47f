"""What admission decides: each request is answered by exactly one first decision.

Rule: a request is judged at its position in the log, in order; a group's tasks follow their group a
bounded number at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

from headrace.admission import (
    access_rules,
    cancel_rules,
    dependency_rules,
    enter_rules,
    idle_rules,
    job_rules,
    member_rules,
    pause_rules,
    people_rules,
    template_rules,
    volume_rules,
    webhook_rules,
)
from headrace.admission.evolve import LISTENS_TO, evolve
from headrace.admission.hearing import Hearing
from headrace.admission.state import Group, State
from headrace.decider import Decider, Draft
from headrace.decider.fair_order import round_robin
from headrace.events import (
    Decision,
    Event,
    access,
    jobs,
    members,
    pauses,
    people,
    templates,
    volumes,
    webhooks,
)


def decide(state: State, now_us: int) -> Sequence[Draft]:
    """Answers to what is pending, then the next tasks of groups. Only tokens depend on the clock."""
    if not _has_more(state):
        return []
    hearing = Hearing(state, now_us)
    drafts = chain(
        _answers(state, hearing),
        dependency_rules.decide_unmet(state, hearing),
        idle_rules.decide_idle(state, hearing),
        _tasks(state, hearing),
        _orphans(state, hearing),
        _stops(state),
        _spreads(state, hearing),
    )
    return list(islice(drafts, state.setting("drafts_max")))


def wakeup(state: State) -> int | None:
    """At once while anything is unfinished; else nothing is ever said without a new event."""
    return 0 if _has_more(state) else None


def _has_more(state: State) -> bool:
    unfinished = (
        state.expanding or state.stopping or state.spreading or state.unmet or state.orphans
    ) or _left_publishing(state)
    is_new = any(not unused.judged for unused in state.unused.values())
    return bool(state.pending or unfinished or is_new)


def _answers(state: State, hearing: Hearing) -> Iterator[Draft]:
    for position, pending in state.pending.items():
        if hearing.is_directory_changed and isinstance(pending.event, OF_PEOPLE):
            continue  # judged in the next turn, on what this one leaves
        answer = _RULES[type(pending.event)](hearing, position, pending.event)
        hearing.tell(answer)
        yield Draft(
            event=answer,
            causation=position,
            traceparent=pending.traceparent,
            actor=pending.actor,
        )


def _tasks(state: State, hearing: Hearing) -> Iterator[Draft]:
    """The next tasks of the groups that were admitted: of each project one after the other, so that
    one's large sweeps leave room in every turn for the others'.
    """
    groups: dict[str, list[Iterator[Draft]]] = {}
    for group_id in state.expanding:
        if hearing.is_stopped(group_id) or hearing.is_pausing(group_id) or group_id in state.unmet:
            continue
        group = state.groups[group_id]
        groups.setdefault(group.event.project, []).append(_tasks_of(hearing, group))
    yield from round_robin({project: chain(*tasks) for project, tasks in groups.items()})


def _tasks_of(hearing: Hearing, group: Group) -> Iterator[Draft]:
    for index in range(group.admitted, group.event.tasks):
        yield Draft(
            event=job_rules.task(hearing, group.event, index),
            causation=group.event.requested_at,
            traceparent=group.traceparent,
        )


def _orphans(state: State, hearing: Hearing) -> Iterator[Draft]:
    """The ends of jobs that were let in while their project was deleted, and of its publishers."""
    for job_id, deleted_at in sorted(state.orphans.items()):
        if hearing.is_stopped(job_id):
            continue
        job = state.live[job_id]
        event = jobs.JobCancelling(job=job_id, project=job.project, reason="project-deleted")
        yield Draft(event=event, causation=deleted_at, traceparent=job.traceparent)
    for project in _left_publishing(state):
        for name, login in sorted(state.publishers[project].items()):
            key = login.public_key
            gone = access.PublisherDeleted(project=project, name=name, public_key=key)
            yield Draft(event=gone, causation=state.gone[project])


def _left_publishing(state: State) -> list[str]:
    """Projects that were deleted and whose publishers the bus still lets in."""
    return sorted(project for project in state.gone if project in state.publishers)


def _stops(state: State) -> Iterator[Draft]:
    """The next tasks of each group that was cancelled or ended before them."""
    for stop in state.stopping.values():
        for task in stop.left:
            job = state.live[task]
            event = jobs.JobCancelling(
                job=task,
                project=job.project,
                user=stop.user,
                reason=stop.reason,
                message=stop.message,
                now=stop.now,
            )
            yield Draft(
                event=event,
                causation=stop.causation,
                traceparent=job.traceparent,
                actor=stop.user,
            )


def _spreads(state: State, hearing: Hearing) -> Iterator[Draft]:
    """The next tasks of each group that was paused or resumed; what was said in this very turn, to
    the group or to one of them, is newer.
    """
    for group_id, spread in state.spreading.items():
        if hearing.is_stopped(group_id) or hearing.is_told(group_id):
            continue
        event = pauses.JobPausing if spread.pausing else pauses.JobResuming
        for task in spread.left:
            if hearing.is_told(task) or hearing.is_stopped(task):
                continue
            job = state.live[task]
            yield Draft(
                event=event(job=task, project=job.project, user=spread.user),
                causation=spread.causation,
                traceparent=job.traceparent,
                actor=spread.user,
            )


_RULES: dict[type[Event], Callable[[Hearing, int, Any], Decision]] = {
    jobs.JobRequested: job_rules.requested,
    jobs.JobCancelRequested: cancel_rules.cancel,
    pauses.JobPauseRequested: pause_rules.pause,
    pauses.JobResumeRequested: pause_rules.resume,
    jobs.JobEnterRequested: enter_rules.enter,
    access.SecretSetRequested: access_rules.set_secret,
    access.PublisherRequested: access_rules.create_publisher,
    access.PublisherDeleteRequested: access_rules.delete_publisher,
    access.ProjectEraseRequested: access_rules.erase,
    members.TokenRequested: member_rules.create_token,
    members.TokenRevokeRequested: member_rules.revoke_token,
    members.JoinRequested: member_rules.join,
    members.ApprovalRequested: member_rules.approve,
    members.CredentialRequested: member_rules.issue,
    volumes.VolumeApplyRequested: volume_rules.apply_volume,
    volumes.VolumeDeleteRequested: volume_rules.delete_volume,
    people.UserSetRequested: people_rules.set_user,
    people.UserRemoveRequested: people_rules.remove_user,
    people.RoleGrantRequested: people_rules.grant_role,
    people.RoleRevokeRequested: people_rules.revoke_role,
    people.ApiTokenRequested: people_rules.create_token,
    people.ApiTokenRevokeRequested: people_rules.revoke_token,
    templates.TemplateApplyRequested: template_rules.apply_template,
    templates.TemplateDeleteRequested: template_rules.delete_template,
    webhooks.WebhookApplyRequested: webhook_rules.apply_webhook,
    webhooks.WebhookDeleteRequested: webhook_rules.delete_webhook,
}
OF_PEOPLE = tuple(kind for kind in _RULES if kind.__module__ == people.__name__)

DECIDER: Decider[State] = Decider(
    service="admission",
    state=State,
    initial=State,
    evolve=evolve,
    decide=decide,
    wakeup=wakeup,
    listens_to=LISTENS_TO,
)

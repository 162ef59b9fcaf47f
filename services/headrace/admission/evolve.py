"""How admission's state follows the log, event by event.

Rule: total. What names a job or a group that is not there changes nothing, except that a task
without its group is stopped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

from headrace.access import directory
from headrace.admission import (
    evolve_dependencies,
    evolve_fleet,
    evolve_groups,
    evolve_members,
    evolve_workspaces,
)
from headrace.admission.derived import index_of, keys_changed
from headrace.admission.hearing import hook_of
from headrace.admission.state import (
    Asked,
    Deleted,
    Ended,
    Group,
    Hook,
    Live,
    Login,
    Pending,
    State,
    Stop,
)
from headrace.events import (
    Entry,
    Event,
    access,
    jobs,
    members,
    pauses,
    people,
    platform,
    templates,
    volumes,
    webhooks,
)


def evolve(state: State, entry: Entry) -> None:
    """Fold one entry."""
    event = entry.event
    if isinstance(event, Asked):
        state.pending[entry.position] = Pending(
            event=event, actor=entry.header.actor, traceparent=entry.header.traceparent
        )
        return
    directory.evolve(state.directory, event)
    follow = _ON.get(type(event))
    if follow is not None:
        follow(state, entry, event)
    state.pending.pop(entry.header.causation, None)


def _admitted(state: State, entry: Entry, event: jobs.JobAdmitted) -> None:
    if event.job in state.live:
        return
    traceparent = entry.header.traceparent
    state.live[event.job] = Live(
        project=event.project,
        user=event.user,
        group=event.group,
        traceparent=traceparent,
        after=event.after,
        idle_us=event.idle_us,
        volumes=event.gang.volumes,
        requested_at=event.requested_at,
        key=_key_of(state, entry, event),
    )
    index_of(state).enters(event.job, state.live[event.job])
    if event.project in state.gone and not event.group:
        state.orphans[event.job] = state.gone[event.project]
    evolve_dependencies.waits(state, event)
    state.live_of[event.project] = state.live_of.get(event.project, 0) + 1
    users = state.live_of_user.setdefault(event.project, {})
    users[event.user] = users.get(event.user, 0) + 1
    if event.tasks:
        state.groups[event.job] = Group(event=event, traceparent=traceparent)
        state.expanding[event.job] = None
    if event.group:
        evolve_groups.task_admitted(state, entry, event)


def _key_of(state: State, entry: Entry, event: jobs.JobAdmitted) -> str:
    """The idempotency key of its request; empty for a task, which was asked for with its group."""
    pending = state.pending.get(entry.header.causation)
    asked = pending.event if pending is not None else None
    return asked.key if isinstance(asked, jobs.JobRequested) and asked.job == event.job else ""


def _refused(state: State, _entry: Entry, event: jobs.JobRefused) -> None:
    if event.job not in state.live:
        _remember(state, event.job, Ended(project=event.project, outcome="refused"))


def _cancelling(state: State, entry: Entry, event: jobs.JobCancelling) -> None:
    job = state.live.get(event.job)
    if job is None:
        return
    job.cancelling = True
    state.orphans.pop(event.job, None)
    state.unused.pop(event.job, None)
    evolve_dependencies.over(state, event.job, job)
    evolve_groups.over(state, job.group, event.job)
    group = state.groups.get(event.job)
    if group is None:
        return
    state.expanding.pop(event.job, None)  # what was not admitted yet never will be
    stop = Stop(
        causation=entry.header.causation,
        user=event.user,
        reason=event.reason,
        message=event.message,
        now=event.now,
    )
    evolve_groups.stop_all(state, event.job, stop, group)


def _finished(state: State, entry: Entry, event: jobs.JobFinished) -> None:
    job = state.live.pop(event.job, None)
    if job is None:
        return
    index_of(state).leaves(event.job, job)
    state.orphans.pop(event.job, None)
    state.live_of[job.project] -= 1
    users = state.live_of_user[job.project]
    users[job.user] -= 1
    if not users[job.user]:
        del users[job.user]
    if not state.live_of[job.project]:
        del state.live_of[job.project], state.live_of_user[job.project]
    state.unused.pop(event.job, None)
    evolve_dependencies.over(state, event.job, job)
    evolve_groups.over(state, job.group, event.job)
    of = state.groups.get(job.group)
    if of is not None:
        of.live.pop(event.job, None)
    group = state.groups.pop(event.job, None)
    if group is not None:
        state.expanding.pop(event.job, None)
        state.spreading.pop(event.job, None)
        evolve_groups.stop_all(
            state, event.job, Stop(causation=entry.position, reason="group-ended"), group
        )
    ended = Ended(
        project=event.project,
        outcome=event.outcome,
        requested_at=job.requested_at,
        key=job.key,
    )
    _remember(state, event.job, ended)
    evolve_dependencies.ended(state, entry, event)


def _remember(state: State, job: str, ended: Ended) -> None:
    if job in state.outcomes:
        _forget(state, job)
    state.outcomes[job] = ended
    own = state.outcomes_of.setdefault(ended.project, {})
    own[job] = None
    index_of(state).ended_has(job, ended)
    if len(own) > state.setting("outcomes_per_project_max"):
        _forget(state, next(iter(own)))
    if len(state.outcomes) > state.setting("outcomes_max"):
        _forget(state, next(iter(state.outcomes)))


def _forget(state: State, job: str) -> None:
    ended = state.outcomes.pop(job)
    project = ended.project
    own = state.outcomes_of[project]
    del own[job]
    index_of(state).ended_forgets(job, ended)
    if not own:
        del state.outcomes_of[project]


def _secret(state: State, _entry: Entry, event: access.SecretSet) -> None:
    state.secrets.setdefault(event.project, {})[event.name] = event.version


def _publisher(state: State, _entry: Entry, event: access.PublisherCreated) -> None:
    login = Login(
        public_key=event.public_key,
        expires_at_us=event.expires_at_us,
        durable_since_us=event.durable_since_us,
    )
    state.publishers.setdefault(event.project, {})[event.name] = login
    keys_changed(state)


def _publisher_deleted(state: State, entry: Entry, event: access.PublisherDeleted) -> None:
    login = state.publishers.get(event.project, {}).pop(event.name, None)
    keys_changed(state)
    if not state.publishers.get(event.project, True):
        del state.publishers[event.project]
    now_us = entry.recorded_at_us
    state.deleted = {
        key: gone for key, gone in state.deleted.items() if gone.expires_at_us > now_us
    }
    if login is not None and login.expires_at_us > now_us:
        gone = Deleted(project=event.project, expires_at_us=login.expires_at_us)
        state.deleted[event.public_key] = gone


def _erased(state: State, entry: Entry, event: access.ProjectErased) -> None:
    state.erasing[event.project] = entry.position
    state.secrets.pop(event.project, None)


def _keys_dropped(state: State, _entry: Entry, event: access.ProjectKeysDropped) -> None:
    if state.erasing.get(event.project) == event.erased_at:
        del state.erasing[event.project]


def _hook(state: State, entry: Entry, event: webhooks.WebhookConfigured) -> None:
    named = state.hooks.setdefault(event.project, {})
    hook = named.get(event.name)
    if hook is None:
        hook = named[event.name] = hook_of(event)
        hook.reached = entry.position
    hook.webhook, hook.failing, hook.stopped = event.webhook, "", False


def _hook_deleted(state: State, _entry: Entry, event: webhooks.WebhookDeleted) -> None:
    named = state.hooks.get(event.project, {})
    named.pop(event.name, None)
    if not named:
        state.hooks.pop(event.project, None)


def _hook_told(
    state: State,
    _entry: Entry,
    event: webhooks.WebhookReached | webhooks.WebhookFailing | webhooks.WebhookStopped,
) -> None:
    hook: Hook | None = state.hooks.get(event.project, {}).get(event.name)
    if hook is None:
        return
    if isinstance(event, webhooks.WebhookReached):
        hook.reached, hook.failing = max(hook.reached, event.reached), ""
    else:
        hook.failing = event.reason
        hook.stopped = isinstance(event, webhooks.WebhookStopped)


def _led(state: State, entry: Entry, event: platform.ServiceLed) -> None:
    if event.service == "admission" and state.settings != event.settings:
        state.settings, state.settings_at = dict(event.settings), entry.position


_ON: dict[type[Event], Callable[[State, Entry, Any], None]] = {
    jobs.JobAdmitted: _admitted,
    jobs.JobRefused: _refused,
    jobs.JobCancelling: _cancelling,
    jobs.JobFinished: _finished,
    pauses.JobPausing: evolve_groups.pausing,
    pauses.JobResuming: evolve_groups.pausing,
    access.SecretSet: _secret,
    access.PublisherCreated: _publisher,
    access.PublisherDeleted: _publisher_deleted,
    access.ProjectErased: _erased,
    access.ProjectKeysDropped: _keys_dropped,
    **evolve_fleet.ON,
    **evolve_members.ON,
    platform.ServiceLed: _led,
    webhooks.WebhookConfigured: _hook,
    webhooks.WebhookDeleted: _hook_deleted,
    webhooks.WebhookReached: _hook_told,
    webhooks.WebhookFailing: _hook_told,
    webhooks.WebhookStopped: _hook_told,
    **evolve_workspaces.FOLDS,
}

LISTENS_TO: tuple[type[Event], ...] = (
    *get_args(Asked),
    jobs.JobEntered,
    jobs.JobEnterRefused,
    jobs.JobCancelRefused,
    pauses.JobPauseRefused,
    pauses.JobResumeRefused,
    access.SecretRefused,
    access.PublisherRefused,
    access.ProjectEraseRefused,
    members.TokenRefused,
    members.JoinRefused,
    members.ApprovalRefused,
    members.CredentialIssued,
    members.CredentialRefused,
    people.UserRefused,
    people.RoleRefused,
    people.ApiTokenRefused,
    volumes.VolumeApplyRequested,
    volumes.VolumeRefused,
    templates.TemplateRefused,
    webhooks.WebhookRefused,
    *(kind for kind in directory.LISTENS_TO if kind not in _ON),
    *_ON,
)

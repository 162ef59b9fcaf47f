"""Secrets, publishers and erasure: what may be set, created, forgotten.

Rule: nothing is kept for a project that does not exist, and nothing is forgotten under a live job. A
key is one publisher's or one node's. Making publishers is what has limits: whoever is to be locked
out can be.
"""

from __future__ import annotations

from headrace.admission.hearing import Hearing
from headrace.admission.state import State
from headrace.events import Decision, Refusal
from headrace.events.access import (
    ProjectErased,
    ProjectEraseRefused,
    ProjectEraseRequested,
    PublisherCreated,
    PublisherDeleted,
    PublisherDeleteRequested,
    PublisherRefused,
    PublisherRequested,
    SecretRefused,
    SecretSet,
    SecretSetRequested,
)

SECOND_US = 1_000_000
SECRETS_MAX = 1_000  # per project
NO_PROJECT = "there is none yet: headrace apply -f creates one"


def set_secret(hearing: Hearing, position: int, event: SecretSetRequested) -> Decision:
    """From now on jobs get this version."""
    del position
    project, name = event.project, event.name
    refusal = unknown_project(hearing.state, project) or being_erased(hearing, project)
    known = hearing.state.secrets.get(project, {})
    if refusal is None and name not in known and len(known) >= SECRETS_MAX:
        rule = f"a project has at most {SECRETS_MAX} secrets"
        refusal = Refusal(field="secret", value=name, rule=rule)
    if refusal is not None:
        return SecretRefused(project=project, name=name, refusal=refusal)
    return SecretSet(project=project, name=name, version=event.version)


def create_publisher(hearing: Hearing, position: int, event: PublisherRequested) -> Decision:
    """The key may publish, for a bounded time; the same name and key again begin it anew."""
    del position
    project, name = event.project, event.name
    login = hearing.publisher(project, name)
    refusal = unknown_project(hearing.state, project)
    if refusal is None and login is not None and login.public_key != event.public_key:
        rule = "exists with another key"
        refusal = Refusal(field="publisher", value=name, rule=rule, instead="choose another name")
    elif refusal is None and login is None and event.renews:
        rule, instead = "does not exist", "was it deleted? headrace publisher create makes another"
        refusal = Refusal(field="publisher", value=name, rule=rule, instead=instead)
    elif refusal is None and login is None:
        refusal = _taken(hearing, project, event.public_key) or _too_many(hearing, project, name)
    since_us = login.durable_since_us if login is not None else 0
    if refusal is None and event.durable and not since_us:
        since_us, refusal = hearing.now_us, _too_many_durable(hearing, project, name)
    if refusal is not None:
        return PublisherRefused(project=project, name=name, refusal=refusal)
    expires_at_us = hearing.now_us + hearing.state.setting("publisher_lasts_s") * SECOND_US
    return PublisherCreated(
        project=project,
        name=name,
        public_key=event.public_key,
        expires_at_us=expires_at_us,
        durable_since_us=since_us,
    )


def delete_publisher(hearing: Hearing, position: int, event: PublisherDeleteRequested) -> Decision:
    """The key is let in no more: the bus refuses it until its login has expired."""
    del position
    project, name = event.project, event.name
    login = hearing.publisher(project, name)
    if login is not None:
        return PublisherDeleted(project=project, name=name, public_key=login.public_key)
    refusal = Refusal(
        field="publisher", value=name, rule="does not exist", unknown="publisher",
        instead="" if hearing.state.publishers.get(project) else "the project has none",
    )  # fmt: skip
    return PublisherRefused(project=project, name=name, refusal=refusal)


def _taken(hearing: Hearing, project: str, key: str) -> Refusal | None:
    """A refusal when the key is somebody's; of which other project is not said."""
    holder = hearing.key_holder(key)
    if not holder:
        return None
    if holder.startswith("publisher ") and not holder.startswith(f"publisher {project}/"):
        holder = "a publisher of another project"
    return Refusal(field="public_key", rule=f"is that of {holder}", instead="make another key")


def _too_many(hearing: Hearing, project: str, name: str) -> Refusal | None:
    days = hearing.state.setting("publisher_lasts_s") // 86_400
    since = f"those deleted in the last {days} days included"
    limit = hearing.state.setting("publishers_per_project_max")
    if hearing.logins_of(project) >= limit:
        rule = f"a project has at most {limit} publishers, {since}"
        return Refusal(field="publisher", value=name, rule=rule, instead="use one that there is")
    limit = hearing.state.setting("publishers_max")
    if hearing.logins >= limit:
        rule = f"the platform has at most {limit} publishers, {since}"
        return Refusal(field="publisher", value=name, rule=rule, instead="use one that there is")
    return None


def _too_many_durable(hearing: Hearing, project: str, name: str) -> Refusal | None:
    for of, who, setting in (
        (project, "a project", "durable_publishers_per_project_max"),
        ("", "the platform", "durable_publishers_max"),
    ):
        limit = hearing.state.setting(setting)
        if hearing.durable_of(of) >= limit:
            rule = f"{who} has at most {limit} durable publishers"
            instead = "delete one, or create it without --durable"
            return Refusal(field="publisher", value=name, rule=rule, instead=instead)
    return None


def erase(hearing: Hearing, position: int, event: ProjectEraseRequested) -> Decision:
    """What the project's jobs ran is to be unreadable, also of one that was deleted."""
    del position
    is_gone = event.project in hearing.state.gone
    refusal = None if is_gone else unknown_project(hearing.state, event.project)
    live = hearing.live_of(event.project)
    if refusal is None and live:
        rule = f"{live} of its jobs have not ended"
        refusal = Refusal(
            field="project", value=event.project, rule=rule, instead="cancel them first"
        )
    if refusal is not None:
        return ProjectEraseRefused(project=event.project, refusal=refusal)
    return ProjectErased(project=event.project)


def unknown_project(state: State, project: str) -> Refusal | None:
    """A refusal unless the project exists."""
    queue = state.queues.get(project)
    if queue is not None and queue.kind == "project":
        return None
    instead = "" if state.queues else NO_PROJECT
    rule = "does not exist" if queue is None else f"is a {queue.kind}, which has no jobs of its own"
    return Refusal(field="project", value=project, rule=rule, instead=instead, unknown="project")


def being_erased(hearing: Hearing, project: str) -> Refusal | None:
    """A refusal while the project's keys are being dropped."""
    if not hearing.is_erasing(project):
        return None
    rule = "is being erased"
    return Refusal(field="project", value=project, rule=rule, instead="ask again in a moment")

"""Secrets, publishers and erasure: what may be set, created, forgotten.

Rule: nothing is kept for a project that does not exist, and nothing is forgotten under a live job.
"""

from __future__ import annotations

from headrace.admission.hearing import Hearing
from headrace.admission.state import State
from headrace.documents.wording import meant
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

PUBLISHERS_MAX = 1_000  # per project
DELETED_MAX = 4_000  # publishers whose keys the bus refuses: what it is told is one message
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
    """The key may publish. The same name and key again is the same publisher."""
    del position
    project, name = event.project, event.name
    refusal = unknown_project(hearing.state, project)
    key = hearing.publisher_key(project, name)
    if refusal is None and key and key != event.public_key:
        rule = "exists with another key"
        refusal = Refusal(field="publisher", value=name, rule=rule, instead="choose another name")
    if refusal is None and event.public_key in hearing.state.deleted:
        rule = "is of a publisher that was deleted"
        refusal = Refusal(field="public_key", rule=rule, instead="make another key")
    known = hearing.state.publishers.get(project, {})
    if refusal is None and not key and len(known) >= PUBLISHERS_MAX:
        rule = f"a project has at most {PUBLISHERS_MAX} publishers"
        refusal = Refusal(field="publisher", value=name, rule=rule)
    if refusal is not None:
        return PublisherRefused(project=project, name=name, refusal=refusal)
    return PublisherCreated(project=project, name=name, public_key=event.public_key)


def delete_publisher(hearing: Hearing, position: int, event: PublisherDeleteRequested) -> Decision:
    """The key is let in no more. Its login does not expire, so that it is refused for ever."""
    del position
    project, name = event.project, event.name
    key = hearing.publisher_key(project, name)
    refusal = None
    if not key:
        known = sorted(hearing.state.publishers.get(project, {}))
        instead = meant(name, "publishers", known, "the project has none")
        refusal = Refusal(field="publisher", value=name, rule="does not exist", instead=instead)
    elif len(hearing.state.deleted) >= DELETED_MAX:
        rule = f"{DELETED_MAX} have been deleted, and the bus refuses no more keys"
        refusal = Refusal(field="publisher", value=name, rule=rule)
    if refusal is not None:
        return PublisherRefused(project=project, name=name, refusal=refusal)
    return PublisherDeleted(project=project, name=name, public_key=key)


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
    names = sorted(name for name, known in state.queues.items() if known.kind == "project")
    instead = meant(project, "projects", names, NO_PROJECT)
    rule = "does not exist" if queue is None else f"is a {queue.kind}, which has no jobs of its own"
    return Refusal(field="project", value=project, rule=rule, instead=instead)


def being_erased(hearing: Hearing, project: str) -> Refusal | None:
    """A refusal while the project's keys are being dropped."""
    if not hearing.is_erasing(project):
        return None
    rule = "is being erased"
    return Refusal(field="project", value=project, rule=rule, instead="ask again in a moment")

"""What administrators ask quota for: the document of a department or a project.

Rule: here a document is understood; whether it fits the tree is decided, not judged here.
"""

from __future__ import annotations

from headrace.documents import read_queue
from headrace.documents.refusing import shown
from headrace.events import Fact, Refusal
from headrace.events.queues import Queue, QueueApplyRequested, QueueDeleteRequested
from headrace.quota.queue_rules import KINDS
from headrace.quota.state import State
from headrace.runtime.asking import Named, receives, receives_document
from headrace.runtime.service import Receive, Request
from headrace.runtime.suggestions import Names

OWNED = "departments and projects belong to the whole fleet"


class QueueNamed(Named, frozen=True, kw_only=True):
    """`queue.delete`: a department or a project of that name."""

    kind: str

    def refusal(self) -> Refusal | None:
        if self.kind not in KINDS:
            rule = "is not a kind of queue"
            instead = " or ".join(KINDS)
            return Refusal(field="kind", value=shown(self.kind), rule=rule, instead=instead)
        return super().refusal()


@receives_document(read_queue, OWNED)
def apply_queue(queue: Queue, request: Request) -> Fact | Refusal:
    """`queue.apply`: its document."""
    return QueueApplyRequested(
        name=queue.queue, queue=queue, user=request.actor, document=request.body.decode()
    )


@receives(QueueNamed, OWNED)
def delete_queue(asked: QueueNamed, request: Request) -> Fact | Refusal:
    """`queue.delete`: whether it can go is decided."""
    return QueueDeleteRequested(name=asked.name, queue_kind=asked.kind, user=request.actor)


RECEIVERS: dict[str, Receive] = {
    "queue.apply": apply_queue,
    "queue.delete": delete_queue,
}


def names_of(state: State, refusal: Refusal, _project: str) -> Names:
    """The departments or projects among which an unknown one is looked for."""
    queues = state.queues.values()
    return Names(sorted(queue.queue for queue in queues if queue.kind == refusal.unknown))

"""What administrators ask quota for: the document of a department or a project.

Rule: here a document is understood; whether it fits the tree is decided, not judged here.
"""

from __future__ import annotations

from headrace.documents import read_queue
from headrace.events import Fact, Refusal
from headrace.events.queues import Queue, QueueApplyRequested
from headrace.runtime.asking import receives_document
from headrace.runtime.service import Request

OWNED = "departments and projects belong to the whole fleet"


@receives_document(read_queue, OWNED)
def apply_queue(queue: Queue, request: Request) -> Fact | Refusal:
    """`queue.apply`: its document."""
    return QueueApplyRequested(name=queue.queue, queue=queue, user=request.actor)

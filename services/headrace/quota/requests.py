"""What administrators ask quota for: the document of a department or a project.

Rule: here a document is understood; whether it fits the tree is decided, not judged here.
"""

from __future__ import annotations

from headrace.bus.subjects import FLEET
from headrace.documents import read_json, read_queue
from headrace.events import Fact, Refusal
from headrace.events.queues import QueueApplyRequested
from headrace.runtime.service import Request, Runtime


async def apply_queue(request: Request, runtime: Runtime) -> Fact | Refusal:
    """The document as a fact."""
    del runtime
    if request.project != FLEET:
        rule = "departments and projects belong to the whole fleet"
        return Refusal(field="project", value=request.project, rule=rule, instead=FLEET)
    document = read_json(request.body)
    queue = document if isinstance(document, Refusal) else read_queue(document)
    if isinstance(queue, Refusal):
        return queue
    return QueueApplyRequested(name=queue.queue, queue=queue, user=request.actor)

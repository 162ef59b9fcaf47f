"""What administrators may ask; the documents themselves are tested with `headrace.documents`."""

import msgspec
import pytest

from headrace.events import Refusal
from headrace.events.queues import Queue, QueueApplyRequested
from headrace.quota.requests import apply_queue
from headrace.runtime.service import Request


async def apply(body, project="fleet"):
    data = body if isinstance(body, bytes) else msgspec.json.encode(body)
    request = Request(verb="queue.apply", project=project, key="k", body=data, actor="ada")
    return await apply_queue(request, None)


async def test_a_document_becomes_a_fact():
    gpus = {"quota": 1.5, "limit": 32, "over_quota_weight": 2}
    document = {"type": "project", "name": "v", "department": "r", "gpus": gpus}
    fact = await apply(document)
    queue = Queue(
        queue="v", kind="project", parent="r", quota_milli=1500, limit_milli=32_000, weight=2
    )
    text = msgspec.json.encode(document).decode()
    assert fact == QueueApplyRequested(name="v", queue=queue, user="ada", document=text)


@pytest.mark.parametrize(
    "body", [[], {}, {"type": "project", "nmae": "v"}, b"{", b"", b"\xff", b"[" * 100_000]
)
async def test_what_is_not_understood_is_refused_in_one_line(body):
    refusal = await apply(body)
    assert isinstance(refusal, Refusal)
    assert "\n" not in str(refusal)


async def test_only_the_fleet_has_departments_and_projects():
    refusal = await apply({"type": "project", "name": "v"}, project="vision")
    assert refusal.field == "project"

"""What the documents of administrators may say."""

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


async def test_a_project_is_understood_with_its_defaults():
    fact = await apply({"type": "project", "name": "vision"})
    assert fact == QueueApplyRequested(
        name="vision", queue=Queue(queue="vision", kind="project"), user="ada"
    )


async def test_gpus_are_kept_as_thousandths():
    gpus = {"quota": 1.5, "limit": 32, "over_quota_weight": 2}
    fact = await apply({"type": "project", "name": "v", "department": "r", "gpus": gpus})
    assert fact.queue == Queue(
        queue="v", kind="project", parent="r", quota_milli=1500, limit_milli=32_000, weight=2
    )


@pytest.mark.parametrize("unlimited", ["all", -1])
async def test_all_means_no_bound(unlimited):
    fact = await apply({"type": "department", "name": "r", "gpus": {"quota": unlimited}})
    assert fact.queue.quota_milli == -1


@pytest.mark.parametrize(
    ("document", "field", "says"),
    [
        ({"type": "project", "nmae": "v"}, "nmae", "did you mean name?"),
        ({"type": "project", "name": "v", "gpus": {"quta": 1}}, "gpus.quta", "did you mean quota?"),
        ({"type": "project", "name": "v", "budget": {}}, "budget", "not yet"),
        ({"type": "project", "name": "v", "gpus": {"per_type": {}}}, "gpus.per_type", "not yet"),
        ({"type": "pool", "name": "v"}, "type", "department or project"),
        ({"type": ["x"], "name": "v"}, "type", "department or project"),
        ({"type": "project"}, "name", "must be a name"),
        ({"type": "project", "name": 3}, "name", "must be a name"),
        ({"type": "project", "name": "a\nb"}, "name", "must be a name"),
        ({"type": "project", "name": "v", "gpus": 3}, "gpus", "mapping"),
        ({"type": "project", "name": "v", "gpus": {"quota": "many"}}, "gpus.quota", "number"),
        ({"type": "project", "name": "v", "gpus": {"quota": 0.0001}}, "gpus.quota", "decimals"),
        ({"type": "project", "name": "v", "gpus": {"quota": True}}, "gpus.quota", "number"),
        ({"type": "project", "name": "v", "gpus": {"quota": 10**20}}, "gpus.quota", "number"),
        ({"type": "project", "name": "v", "gpus": {"limit": "1e99999"}}, "gpus.limit", "number"),
        ({"type": "project", "name": "v", "priority": 1.5}, "priority", "whole number"),
        ([], "document", "mapping"),
        (b"{", "request", "JSON"),
        (b"", "request", "JSON"),
        (b"\xff", "request", "JSON"),
    ],
)
async def test_a_document_that_is_not_understood_is_refused_in_one_line(document, field, says):
    refusal = await apply(document)
    assert isinstance(refusal, Refusal)
    assert refusal.field == field
    assert says in str(refusal)
    assert "\n" not in str(refusal)


async def test_only_the_fleet_has_departments_and_projects():
    refusal = await apply({"type": "project", "name": "v"}, project="vision")
    assert refusal.field == "project"

"""Pools: applied, refused, priced."""

import json

import msgspec
import pytest

from headrace.decider.testing import given
from headrace.events import Refusal
from headrace.events.asked import Accelerator, Gang
from headrace.events.jobs import JobAdmitted, JobFinished
from headrace.events.nodes import NodeJoined
from headrace.events.pools import (
    Pool,
    PoolApplyRequested,
    PoolConfigured,
    PoolDeleted,
    PoolDeleteRequested,
    PoolPriced,
)
from headrace.events.queues import Queue, QueueConfigured
from headrace.placement.decide import DECIDER
from headrace.placement.requests import apply_pool
from headrace.runtime.service import Request


def asked(name="train", value="train", **fields):
    pool = Pool(pool=name, label="pool", value=value, **fields)
    return PoolApplyRequested(name=name, pool=pool, user="ada")


def decided(*events):
    return [draft.event for draft in given(DECIDER, *events).turn()]


def test_a_pool_is_configured_and_its_gpus_are_priced():
    prices = {"H100": 2_100_000}
    request = asked(prices=prices, currency="EUR", topology=("rack",))
    run = given(DECIDER, request)
    first, second = run.turn()
    assert first.event == PoolConfigured(name="train", pool=request.pool, change="created")
    assert second.event == PoolPriced(name="train", currency="EUR", prices=prices)
    assert (first.causation, first.actor) == (1, "ada")
    assert run.state.pools == {"train": request.pool}
    assert run.turn() == []


def test_what_has_not_changed_is_not_priced_again():
    run = given(DECIDER, asked(prices={"H100": 1}, currency="EUR"))
    run.turn()
    run.given(asked(prices={"H100": 1}, currency="EUR"))
    assert [draft.event.change for draft in run.turn()] == ["unchanged"]
    run.given(asked())
    configured, priced = (draft.event for draft in run.turn())
    assert configured.change == "updated"
    assert priced == PoolPriced(name="train")


def test_a_pool_without_prices_is_configured_alone():
    assert len(decided(asked())) == 1


def test_a_node_is_in_one_pool():
    first, second = decided(asked(), asked("spot"))
    assert first.change == "created"
    assert str(second.refusal) == (
        "refused: nodes.label = pool=train — these are the nodes of pool train, and a node is in "
        "one pool; another label"
    )


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"placement": "best"}, "placement"),
        ({"topology": ("rack", "rack")}, "topology"),
        ({"prices": {"H100": -1}}, "price.H100"),
    ],
)
def test_a_pool_that_cannot_be_is_refused_by_field(fields, field):
    run = given(DECIDER, asked(**fields))
    (draft,) = run.turn()
    assert draft.event.refusal.field == field
    assert run.turn() == []
    assert run.state.pools == {}


def test_a_pool_has_the_nodes_with_its_label():
    pool = Pool(pool="train", label="pool", value="train")
    assert pool.has({"pool": "train", "rack": "r1"})
    assert not pool.has({"pool": "build"})
    assert not pool.has({})


async def received(project="fleet", **fields):
    document = {"type": "pool", "name": "train", "nodes": {"label": "pool=train"}} | fields
    body = json.dumps(document).encode()
    request = Request(verb="pool.apply", project=project, key="k", body=body, actor="ada")
    return await apply_pool(request, None)


async def test_a_document_becomes_a_fact():
    fact = await received()
    assert json.loads(fact.document)["nodes"] == {"label": "pool=train"}
    assert msgspec.structs.replace(fact, document="") == asked()


async def test_what_is_no_pool_is_refused():
    refusal = await received(type="project")
    assert isinstance(refusal, Refusal)
    assert refusal.field == "type"
    assert (await received(project="vision")).instead == "fleet"


def deleting(name="train"):
    return PoolDeleteRequested(name=name, user="ada")


def test_a_pool_that_nobody_needs_is_deleted():
    run = given(DECIDER, asked())
    run.turn()
    (draft,) = run.given(deleting()).turn()
    assert (draft.event, draft.actor) == (PoolDeleted(name="train"), "ada")
    assert run.state.pools == {}
    assert str(run.given(deleting()).turn()[0].event.refusal).endswith("no such pool")


def node(**labels):
    return NodeJoined(
        node="n1", host="n1", address="10.0.0.1", boot="b", incarnation="i", public_key="",
        devices=(), labels=labels, cpu_milli=1, memory_bytes=1,
    )  # fmt: skip


def waiting():
    gang = Gang(nodes=1, accelerators=(Accelerator(milli=1000),), pools=("train",))
    return JobAdmitted(
        job="a-1", project="vision", name="a", user="ada", gang=gang, requested_at=1, priority=40
    )


def naming():
    queue = Queue(queue="vision", kind="project", pools={"training": ("train",)})
    return QueueConfigured(name="vision", queue=queue, change="created")


@pytest.mark.parametrize(
    ("there", "line"),
    [
        (node(pool="train"), "1 node of the fleet is in it: n1; label them other than pool=train"),
        (waiting(), "1 job for it has not ended: a-1; cancel them or wait"),
        (naming(), "it stands in the documents of vision; apply them without it first"),
    ],
)
def test_a_pool_that_is_needed_stays_and_who_needs_it_is_said(there, line):
    run = given(DECIDER, asked(), there)
    run.turn()
    answers = [d.event for d in run.given(deleting()).turn() if hasattr(d.event, "refusal")]
    assert line in str(answers[0].refusal)
    assert "train" in run.state.pools


def test_a_pool_can_go_once_its_jobs_have_ended():
    run = given(DECIDER, asked(), waiting())
    run.turn()
    run.given(JobFinished(job="a-1", project="vision", outcome="cancelled"), deleting())
    assert PoolDeleted(name="train") in [draft.event for draft in run.turn()]

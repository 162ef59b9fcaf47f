"""Pools: applied, refused, priced."""

import json

import pytest

from headrace.decider.testing import given
from headrace.events import Refusal
from headrace.events.pools import Pool, PoolApplyRequested, PoolConfigured, PoolPriced
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
    assert await received() == asked()


async def test_what_is_no_pool_is_refused():
    refusal = await received(type="project")
    assert isinstance(refusal, Refusal)
    assert refusal.field == "type"
    assert (await received(project="vision")).instead == "fleet"

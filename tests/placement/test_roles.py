"""Gangs whose workers differ: placed together, ended by the role that counts."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.events import tag_of
from headrace.events.asked import Accelerator, Gang, Role
from headrace.events.gangs import GangEvicted, GangGrown, GangPlaced, GangShrunk
from headrace.events.jobs import JobFinished
from headrace.events.pools import Pool, PoolConfigured
from headrace.placement.explain_rules import explain
from headrace.placement.gang_environment import environment_of, processes_of

GPU = Accelerator(milli=1000)


def roles(*asked, succeeds_when="worker", **fields):
    nodes = sum(role.nodes for role in asked)
    most = sum(max(role.nodes, role.nodes_max) for role in asked)
    return Gang(
        nodes=nodes,
        nodes_max=most if most > nodes else 0,
        roles=asked,
        succeeds_when=succeeds_when,
        **fields,
    )


def ps(nodes=1, **fields):
    return Role(name="ps", nodes=nodes, cpu_milli=2000, memory_bytes=10**9, **fields)


def worker(nodes=2, gpus=4, **fields):
    kinds = (Accelerator(milli=1000 * gpus),)
    return Role(name="worker", nodes=nodes, accelerators=kinds, cpu_milli=4000, **fields)


def tags(events):
    return [tag_of(event).removesuffix(".v1") for event in events]


def of(kind, events):
    return [event for event in events if isinstance(event, kind)]


def by_role(history, job):
    found = {}
    for each in history.state.jobs[job].run.workers:
        found.setdefault(each.role, []).append(each.rank)
    return found


@pytest.fixture
def running(history):
    history.job("a", gang=roles(ps(), worker()))
    history.settled()
    history.starts("a")
    history.settled()
    return history


def test_every_role_gets_what_it_asks_for_or_none_does(history):
    history.job("large", gang=roles(ps(), worker(3)))
    assert history.settled() == []
    assert "2 nodes could ever hold that" in explain(history.state, "large", history.now_us).text
    assert "as worker" in explain(history.state, "large", history.now_us).text
    history.job("a", gang=roles(ps(), worker()))
    (placed,) = of(GangPlaced, history.settled())
    assert [(w.rank, w.role, len(w.devices)) for w in placed.workers] == [
        (0, "ps", 0), (1, "worker", 4), (2, "worker", 4),
    ]  # fmt: skip
    assert [(w.cpu_milli, w.memory_bytes) for w in placed.workers] == [
        (2000, 10**9), (4000, 0), (4000, 0),
    ]  # fmt: skip
    assert sum(node.cpu_used_milli for node in history.state.nodes.values()) == 10_000
    assert {w.node for w in placed.workers if w.role == "worker"} == {"n1", "n2"}


def test_the_others_are_stopped_when_every_worker_of_the_role_that_counts_is_done(running):
    history = running
    history.exits("a", ranks=[1])
    assert history.settled() == []
    history.exits("a", ranks=[2])
    (evicted,) = history.settled()
    assert (evicted.reason, evicted.act.names) == ("finished", {"role": "worker"})
    history.exits("a", ranks=[0], reason="stopped", exit_code=143)
    (end,) = of(JobFinished, history.settled())
    assert (end.outcome, end.reason, end.exit_code) == ("succeeded", "", 0)
    assert history.state.usage["default"].milli == 0
    assert sum(node.cpu_used_milli for node in history.state.nodes.values()) == 0


def test_what_ends_badly_after_the_role_that_counts_is_done_does_no_harm(running):
    history = running
    history.exits("a", ranks=[1, 2])
    history.exits("a", ranks=[0], exit_code=1)
    (end,) = of(JobFinished, history.settled())
    assert end.outcome == "succeeded"


def test_a_failing_role_fails_the_gang(running):
    history = running
    history.exits("a", ranks=[0], exit_code=3, message="no space left")
    (evicted,) = history.settled()
    assert (evicted.reason, evicted.act.numbers) == ("worker-failed", {"rank": 0, "exit_code": 3})
    history.exits("a", ranks=[1, 2], reason="stopped", exit_code=143)
    (end,) = of(JobFinished, history.settled())
    assert (end.outcome, end.reason, end.message) == ("failed", "error", "no space left")


def test_without_a_role_that_counts_all_must_succeed(history):
    history.job("a", gang=roles(ps(), worker(), succeeds_when=""))
    history.settled()
    history.starts("a")
    history.settled()
    history.exits("a", ranks=[1, 2])
    assert history.settled() == []
    history.exits("a", ranks=[0], exit_code=1)
    (end,) = of(JobFinished, history.settled())
    assert end.outcome == "failed"


def test_an_elastic_role_grows_and_is_shrunk_to_its_own_minimum(history):
    history.job("a", gang=roles(ps(), worker(1, gpus=8, nodes_max=3)))
    history.settled()
    assert by_role(history, "a") == {"ps": [0], "worker": [1, 2]}
    history.starts("a")
    history.settled()
    history.node("n3")
    (grown,) = of(GangGrown, history.settled())
    assert [(w.rank, w.role) for w in grown.workers] == [(3, "worker")]
    history.job("b", gpus=8000, priority=70)
    (shrunk,) = of(GangShrunk, history.settled())
    assert shrunk.ranks == (3,)
    history.exits("a", ranks=[3], reason="stopped", exit_code=143)
    history.settled()
    history.job("c", gpus=8000, priority=70, nodes=2)
    assert of(GangEvicted, history.settled())[0].reason == "preempted"


def test_a_lost_worker_of_a_role_that_has_enough_is_given_up_and_another_ends_the_attempt(history):
    history.job("a", gang=roles(ps(), worker(1, gpus=8, nodes_max=2)))
    history.settled()
    history.starts("a")
    history.settled()
    history.exits("a", ranks=[2], reason="lost", exit_code=137)
    assert tags(history.settled())[0] == "workers.released"
    history.exits("a", ranks=[0], reason="lost", exit_code=137)
    assert of(GangEvicted, history.settled())[0].reason == "worker-failed"


def test_roles_choose_their_kinds_together_within_one_pool(empty_history):
    history = empty_history
    history.node("n1", model="A100-80GB", gpus=2)
    history.node("n2", model="L4-24GB", gpus=1)
    history.queue("default")
    big = Role(name="big", accelerators=(Accelerator(milli=1000, model="H100"), GPU))
    small = Role(name="small", accelerators=(Accelerator(milli=1000, model="L4"),))
    history.job("a", gang=roles(big, small, succeeds_when=""))
    (placed,) = of(GangPlaced, history.settled())
    assert [(w.role, w.node) for w in placed.workers] == [("big", "n1"), ("small", "n2")]
    assert placed.act.numbers["option"] == 2


def test_roles_are_tried_pool_by_pool_and_all_of_them_in_one(empty_history):
    history = empty_history
    for name in ("train", "spot"):
        pool = Pool(pool=name, label="pool", value=name, prices={"H100": 2_000_000})
        history.given(PoolConfigured(name=name, pool=pool, change="created"))
    history.node("n1", gpus=4, labels={"pool": "train"})
    history.node("n2", gpus=8, labels={"pool": "spot"})
    history.queue("default")
    history.job("a", gang=roles(ps(), worker(1, gpus=8), pools=("train", "spot")))
    (placed,) = of(GangPlaced, history.settled())
    assert {w.node for w in placed.workers} == {"n2"}
    assert placed.act.names["pool"] == "spot"


def test_each_worker_is_told_its_role_and_where_the_others_are(running):
    job = running.state.jobs["a"]
    first, _, last = (environment_of("a", job, job.run, rank) for rank in range(3))
    assert (first["HEADRACE_ROLE"], first["HEADRACE_ROLE_RANK"]) == ("ps", "0")
    assert (last["HEADRACE_ROLE"], last["HEADRACE_ROLE_RANK"]) == ("worker", "1")
    assert last["HEADRACE_ROLE_NODES"] == "2"
    peers = msgspec.json.decode(last["HEADRACE_ROLES"])
    where = {(w.role, f"{w.address}:{w.port + 1}") for w in job.run.workers}
    assert {(role, at) for role, mine in peers.items() for at in mine} == where
    assert len(where) == 3
    assert first["MASTER_PORT"] == str(job.run.workers[0].port)


def test_processes_are_counted_over_all_roles(history):
    many = msgspec.structs.replace(worker(), per_gpu_processes=True)
    history.job("a", gang=roles(ps(), many))
    history.settled()
    job = history.state.jobs["a"]
    assert [processes_of(job, each) for each in job.run.workers] == [1, 4, 4]
    told = [environment_of("a", job, job.run, rank) for rank in range(3)]
    assert {each["HEADRACE_NODE_PROCESSES"] for each in told} == {"1,4,4"}
    assert {each["HEADRACE_NODE_ROLES"] for each in told} == {"ps,worker,worker"}
    assert [each.ports for each in job.run.workers] == [2, 5, 5]


ROLE = st.builds(
    Role,
    name=st.just(""),
    nodes=st.integers(1, 3),
    nodes_max=st.integers(0, 4),
    cpu_milli=st.just(1000),
    accelerators=st.sampled_from([(), (GPU,), (Accelerator(milli=500),)]),
)


@settings(max_examples=40, deadline=None)
@given(asked=st.lists(ROLE, min_size=1, max_size=3), cut=st.booleans())
def test_what_is_placed_has_its_minimum_in_every_role_and_never_more_than_its_maximum(asked, cut):
    from tests.placement.conftest import History

    history = History()
    history.node("n1", gpus=2)
    history.node("n2", gpus=2)
    history.queue("default")
    named = [msgspec.structs.replace(role, name=f"r{n}") for n, role in enumerate(asked)]
    history.job("a", gang=roles(*named, succeeds_when=""))
    if cut:
        history.cut()
    for placed in of(GangPlaced, history.settled()):
        for role in named:
            mine = [each for each in placed.workers if each.role == role.name]
            assert role.nodes <= len(mine) <= max(role.nodes, role.nodes_max)
            assert len({each.node for each in mine}) == len(mine) or role.nodes == 1

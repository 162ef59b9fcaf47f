"""In which order a job tries what it could be given."""

from pathlib import Path

import msgspec
import pytest

from headrace.decider import fold
from headrace.events import decode
from headrace.events.asked import Accelerator, Gang, Role
from headrace.events.performance import PerformanceMeasured
from headrace.events.pools import Pool, PoolConfigured
from headrace.placement import evolve_performance
from headrace.placement.decide import DECIDER
from headrace.placement.evolve_performance import MEASURED_MAX
from headrace.placement.following import world_of
from headrace.placement.option_rules import NOWHERE, family_of, options_by_role, options_of
from headrace.placement.state import Measured

LOG = Path(__file__).parents[1] / "events" / "performance.jsonl"
H100, A100, L40 = (Accelerator(milli=1000, model=model) for model in ("H100", "A100", "L40"))


def pool(name, currency="EUR", **prices):
    return Pool(pool=name, label="pool", value=name, prices=prices, currency=currency)


POOLS = {
    one.pool: one
    for one in (pool("train", H100=2_100_000, A100=1_200_000), pool("spot", H100=900_000),
                pool("build", L40=500_000), pool("free"))
}  # fmt: skip


def order(gang, pools=None, measured=()):
    found = options_of(gang, POOLS if pools is None else pools, measured)
    return [(option.pool_name, option.kind.model) for option in found]


def workspace(*kinds, pools=()):
    return Gang(accelerators=kinds, pools=pools, kind="workspace", by_price=True)


def test_a_workspace_tries_the_cheapest_gpu_first_and_what_has_no_price_last():
    anything = Accelerator(milli=1000)
    assert order(workspace(anything)) == [
        ("build", "L40"), ("spot", "H100"), ("train", "A100"), ("train", "H100"), ("", ""),
    ]  # fmt: skip
    assert order(workspace(H100)) == [("spot", "H100"), ("train", "H100"), ("", "H100")]


def test_a_workspace_stays_in_the_pools_of_its_project_and_equals_come_by_name():
    found = order(workspace(H100, pools=("train", "free", "spot")))
    assert found[:2] == [("spot", "H100"), ("train", "H100")]
    assert found[2:] == [("free", "H100"), ("spot", "H100"), ("train", "H100")]
    alike = {name: pool(name, H100=1) for name in ("b", "c", "a")}
    assert order(workspace(H100), alike)[:3] == [("a", "H100"), ("b", "H100"), ("c", "H100")]


def test_an_order_of_ones_own_stands():
    gang = Gang(accelerators=(H100,), pools=("train", "spot"), kind="workspace")
    assert order(gang) == [("train", "H100"), ("spot", "H100")]


def test_what_is_cheap_for_one_is_told_apart_by_how_many_are_asked_for():
    two = Accelerator(milli=2000, model="A100")
    assert order(workspace(H100, two), {"train": POOLS["train"]})[:2] == [
        ("train", "H100"), ("train", "A100"),
    ]  # fmt: skip


def test_the_longest_name_says_the_price_and_currencies_are_not_compared():
    pools = {
        "a": pool("a", "USD", H100=1),
        "b": msgspec.structs.replace(POOLS["spot"], pool="b", prices={"H100": 5, "H100-80GB": 9}),
    }
    assert order(workspace(H100), pools)[:2] == [("b", "H100-80GB"), ("a", "H100")]
    exact = Accelerator(milli=1000, model="H100-80GB-HBM3")
    first = options_of(workspace(exact), pools, ())[0]
    assert (first.kind, first.price_micro) == (exact, 9)


def test_a_gang_prefers_the_cheapest_step_once_every_kind_was_measured():
    gang = Gang(nodes=2, accelerators=(H100, A100), pools=("train", "spot"))
    given = [("train", "H100"), ("train", "A100"), ("spot", "H100"), ("spot", "A100")]
    fast = Measured(model="H100-80GB", gpus=2, step_time_us=100)
    slow = Measured(model="A100-80GB", gpus=2, step_time_us=150)
    assert order(gang) == given
    assert order(gang, measured=[fast]) == given
    assert order(gang, measured=[fast, slow]) == [
        ("spot", "H100"), ("train", "A100"), ("train", "H100"), *given,
    ]  # fmt: skip
    slower = msgspec.structs.replace(slow, step_time_us=176)
    assert order(gang, measured=[fast, slower])[:3] == [
        ("spot", "H100"), ("train", "H100"), ("train", "A100"),
    ]  # fmt: skip


def test_steps_of_other_numbers_of_gpus_tell_nothing():
    gang = Gang(nodes=4, accelerators=(H100, A100), pools=("train",))
    other = [Measured(model=model, gpus=2, step_time_us=9) for model in ("H100", "A100")]
    assert order(gang, measured=other) == [("train", "H100"), ("train", "A100")]


def test_an_unknown_pool_is_nowhere_and_a_job_without_gpus_has_no_price():
    gang = Gang(accelerators=(H100,), pools=("gone",), by_price=True)
    assert options_of(gang, POOLS, ()) == options_of(gang, {}, ())
    assert options_of(gang, POOLS, ())[0].pool is NOWHERE
    assert order(workspace()) == [("", "")]


def order_of_roles(gang, measured=()):
    return [
        tuple((option.pool_name, option.kind.model) for option in options)
        for options in options_by_role(gang, POOLS, measured)
    ]


SERVER = Role(name="server", cpu_milli=1000)


def test_a_gang_whose_workers_alone_have_gpus_prefers_the_cheapest_step_like_any_other():
    worker = Role(name="worker", nodes=2, accelerators=(H100, A100))
    gang = Gang(roles=(SERVER, worker), pools=("train", "spot"))
    given = [
        (("train", ""), ("train", "H100")), (("train", ""), ("train", "A100")),
        (("spot", ""), ("spot", "H100")), (("spot", ""), ("spot", "A100")),
    ]  # fmt: skip
    assert order_of_roles(gang) == given
    fast = Measured(model="H100-80GB", gpus=2, step_time_us=100)
    slow = Measured(model="A100-80GB", gpus=2, step_time_us=150)
    assert order_of_roles(gang, [fast]) == given
    assert order_of_roles(gang, [fast, slow]) == [
        (("spot", ""), ("spot", "H100")), (("train", ""), ("train", "A100")),
        (("train", ""), ("train", "H100")), *given,
    ]  # fmt: skip


def test_roles_of_several_kinds_are_judged_by_what_they_cost_together():
    many = Role(name="many", nodes=4, accelerators=(A100, H100))
    one = Role(name="one", accelerators=(H100,))
    gang = Gang(roles=(one, many), kind="workspace", by_price=True)
    assert order_of_roles(gang) == [
        (("spot", "H100"), ("spot", "H100")),  # 0.9 + 4 x 0.9
        (("train", "H100"), ("train", "A100")),  # 2.1 + 4 x 1.2
        (("train", "H100"), ("train", "H100")),
        (("", "H100"), ("", "A100")),
        (("", "H100"), ("", "H100")),
    ]
    measured = [Measured(model=model, gpus=1, step_time_us=9) for model in ("H100", "A100")]
    trained = msgspec.structs.replace(gang, by_price=False, kind="training", pools=("train",))
    assert order_of_roles(trained, measured) == [
        (("train", "H100"), ("train", "A100")), (("train", "H100"), ("train", "H100")),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("job", "family"), [("pretrain-a2k4", "v/pretrain"), ("my-job-x1/3", "v/my-job"), ("j", "v/j")]
)
def test_a_family_is_a_projects_jobs_of_one_name(job, family):
    assert family_of("v", job) == family


def node(history, name, model, where):
    history.node(name, gpus=2, model=model, labels={"pool": where})


def priced(history):
    history.queue("default")
    node(history, "n1", "H100-80GB", "train")
    node(history, "n2", "A100-80GB", "train")
    node(history, "n3", "H100-80GB", "spot")
    for one in POOLS.values():
        history.given(PoolConfigured(name=one.pool, pool=one, change="created"))


def test_a_workspace_is_placed_where_it_is_cheapest_and_the_act_says_why(empty_history):
    history = empty_history
    priced(history)
    kind = Accelerator(milli=2000)
    for number in range(3):
        history.job(f"w{number}", gang=workspace(kind))
    history.settled()
    assert [history.placed(f"w{n}").workers[0].node for n in range(3)] == ["n3", "n2", "n1"]
    act = history.placed("w1").act
    assert (act.numbers["option"], act.numbers["price_micro"]) == (3, 1_200_000)
    assert (act.names["pool"], act.names["model"], act.names["currency"]) == (
        "train", "A100", "EUR",
    )  # fmt: skip


def measured(model, gpus, step_time_us, job="pretrain-a1"):
    return PerformanceMeasured(
        job=job, project="default", attempt=1, model=model, nodes=1, gpus=gpus,
        step_time_us=step_time_us, samples=200,
    )  # fmt: skip


def test_what_is_measured_while_a_gang_waits_changes_what_it_prefers(empty_history):
    history = empty_history
    priced(history)
    two = Accelerator(milli=2000, model="H100"), Accelerator(milli=2000, model="A100")
    gang = Gang(accelerators=two, pools=("train",))
    for name in ("x-1", "x-2"):
        history.job(name, gang=gang)
    history.settled()
    assert history.placed("x-1").workers[0].node == "n1"
    history.job("pretrain-b2", gang=gang)
    assert history.settled() == []
    history.given(measured("H100-80GB", 2, 1000), measured("A100-80GB", 2, 1100))
    for name in ("x-1", "x-2"):
        history.exits(name)
    history.settled()
    placed = history.placed("pretrain-b2")
    assert placed.workers[0].node == "n2"
    assert (placed.act.numbers["option"], placed.act.numbers["predicted_step_us"]) == (1, 1100)
    again = fold(DECIDER, DECIDER.initial(), history.entries)
    assert msgspec.json.encode(again) == msgspec.json.encode(history.state)


def test_a_family_that_is_forgotten_is_offered_what_nobody_measured(empty_history, monkeypatch):
    history = empty_history
    priced(history)
    gang = Gang(accelerators=(H100, A100), pools=("train",))
    history.job("full", gang=Gang(nodes=3, accelerators=(Accelerator(milli=2000),)))
    history.job("pretrain-b2", gang=gang)
    history.settled()
    history.given(measured("H100-80GB", 1, 1000), measured("A100-80GB", 1, 1100))
    history.settled()
    assert offered(history) == ["A100", "H100"]
    monkeypatch.setattr(evolve_performance, "FAMILIES_MAX", 1)
    history.given(measured("H100-80GB", 1, 1000, job="other-c3"))
    history.settled()
    assert offered(history) == ["H100", "A100"]
    history.cut()
    history.decided()
    assert offered(history) == ["H100", "A100"]


def offered(history):
    """The models that the waiting job is tried with in the world, in order."""
    options = world_of(history.state).gangs["pretrain-b2"].options
    return [shape.model for (shape,) in options]


def test_what_the_log_says_of_performance_is_kept_by_family_and_bounded(empty_history):
    history = empty_history
    for line in LOG.read_text().splitlines():
        event = decode(msgspec.json.decode(line)["type"], line.encode())
        if isinstance(event, PerformanceMeasured):
            history.given(event)
    by_gpus = {(m.model, m.gpus): m.step_time_us for m in history.state.measured["vision/pretrain"]}
    assert by_gpus["H100-80GB", 8] == 412_000
    for gpus in range(1, 2 * MEASURED_MAX):
        history.given(measured("H100", gpus, gpus))
    history.given(measured("H100", 100, 7), measured("H100", 0, 7), measured("H100", 5, -1))
    known = history.state.measured["default/pretrain"]
    assert len(known) == MEASURED_MAX
    assert known[-1] == Measured(model="H100", gpus=100, step_time_us=7)

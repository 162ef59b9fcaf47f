"""Configured queues as the scheduler divides among them, down to users."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.events.queues import Allowance, Queue
from headrace.scheduling import gangs
from headrace.scheduling.actions import take_turn
from headrace.scheduling.division import Ration, divide_amounts
from headrace.scheduling.gangs import Gang, Group, Place, Role, Shape, Task
from headrace.scheduling.machines import MachineSpec
from headrace.scheduling.parts import type_part
from headrace.scheduling.rations import (
    leaf_of,
    leaves,
    limit_of_type,
    path_up,
    spec_of,
    specs_of,
)
from headrace.scheduling.world import World

MINUTE_US = 60_000_000
ALL = Ration(quota=-1, limit=-1, weight=1)


def project(name="vision", **fields):
    return Queue(queue=name, kind="project", **fields)


def test_a_queue_is_divided_as_it_is_configured():
    queue = project(
        parent="research", quota_milli=16_000, limit_milli=32_000, weight=2, priority=7,
        cpu_quota_milli=64_000, cpu_limit_milli=96_000, memory_quota_bytes=10, reclaim_after_us=0,
    )  # fmt: skip
    spec = spec_of(queue, 3)
    assert (spec.queue, spec.parent, spec.priority, spec.age) == ("vision", "research", 7, 3)
    assert spec.rations == (
        Ration(quota=16_000, limit=32_000, weight=2),
        Ration(quota=64_000, limit=96_000, weight=2),
        Ration(quota=10, limit=-1, weight=2),
    )
    assert (spec.reclaim_after_us, spec.preempt_after_us) == (0, None)


def test_what_nobody_rations_is_there_for_all():
    assert spec_of(project(), 0).rations[1:] == (ALL, ALL)


def test_users_with_live_jobs_are_queues_below_a_project_that_divides_among_them():
    queues = {
        "vision": project(users_equal=True, user_max_milli=8_000, quota_milli=16_000),
        "ads": project("ads"),
    }
    users = {"vision": ["bob", "ada", "bob"], "ads": ["eve"], "gone": ["eve"]}
    found = leaves(queues, users)
    assert list(found) == ["vision/ada", "vision/bob"]
    ada = found["vision/ada"]
    assert (ada.parent, ada.age, ada.bounds_firm) == ("vision", 0, False)
    assert ada.rations == (Ration(quota=0, limit=8_000, weight=1), ALL, ALL)
    assert list(specs_of(queues, users)) == ["vision", "ads", "vision/ada", "vision/bob"]
    assert leaf_of(queues["vision"], "vision", "ada") == "vision/ada"
    assert leaf_of(queues["ads"], "ads", "eve") == "ads"
    assert leaf_of(None, "gone", "eve") == "gone"


def test_users_share_what_their_project_may_have_equally():
    queues = {"vision": project(users_equal=True, quota_milli=6_000), "ads": project("ads")}
    specs = specs_of(queues, {"vision": ["ada", "bob", "eve"]})
    wants = {"vision/ada": 1_000, "vision/bob": 500_000, "vision/eve": 9_000, "ads": 9_000}
    requests = {name: (milli, 0, 0) for name, milli in wants.items()}
    shares = divide_amounts(specs, requests, (10_000, 0, 0))
    assert {name: shares[name][0] for name in wants} == {
        "vision/ada": 1_000,
        "vision/bob": 4_000,
        "vision/eve": 3_000,
        "ads": 2_000,
    }


@pytest.mark.parametrize(
    ("model", "milli"),
    [("H100-80GB", 4_000), ("h100-80gb", 4_000), ("H100", 8_000), ("H100-94GB", 8_000), ("H1", -1)],
)
def test_the_tightest_limit_of_a_model_holds(model, milli):
    per_type = {"H100": Allowance(limit_milli=8_000), "H100-80GB": Allowance(limit_milli=4_000)}
    assert limit_of_type(per_type, model) == milli


def test_what_is_guaranteed_of_a_part_is_promised_all_the_way_up():
    some, pool = Allowance(quota_milli=2_000), {"train": Allowance(limit_milli=4_000)}
    queues = {
        "all": Queue(queue="all", kind="department"),
        "research": Queue(queue="research", kind="department", parent="all", per_pool=pool),
        "sales": Queue(queue="sales", kind="department", parent="all", per_type={"A100": some}),
        "vision": project("vision", parent="research", per_type={"h100": some}),
        "speech": project("speech", parent="research", per_type={"H100": some, "A100": some}),
        "ads": project("ads", parent="sales", per_type={"A100": some}),
    }
    specs = specs_of(queues, {})
    promised = {
        name: {part.name: ration.quota for part, ration in spec.parts.items()}
        for name, spec in specs.items()
    }
    assert promised == {
        "all": {"H100": 4_000, "A100": 4_000},
        "research": {"train": 0, "H100": 4_000, "A100": 2_000},
        "sales": {"A100": 2_000},
        "vision": {"H100": 2_000},
        "speech": {"H100": 2_000, "A100": 2_000},
        "ads": {"A100": 2_000},
    }
    bounds = {name: spec.parts.get(type_part("H100")) for name, spec in specs.items()}
    assert bounds["vision"].firm_limit == 2_000
    assert bounds["research"].firm_limit == -1


@pytest.mark.parametrize(
    "parents",
    [
        {"a": "b", "b": "a", "c": ""},
        {"a": "a", "c": ""},
        {"": "", "c": ""},
        {"a": "gone", "c": ""},
        {"c": "", **{f"d{i}": f"d{i - 1}" if i else "c" for i in range(3_000)}},
    ],
)
def test_a_tree_that_does_not_hold_is_divided_as_far_as_it_does(parents):
    queues = {name: project(name, parent=parent) for name, parent in parents.items()}
    requests = dict.fromkeys(queues, (1000, 0, 0))
    shares = divide_amounts(specs_of(queues, {}), requests, (8_000, 0, 0))
    assert shares["c"][0] > 0
    assert all(shares[name] == (0, 0, 0) for name in parents if name in ("", "a", "b"))


def test_a_path_ends_where_the_tree_does_not_hold():
    queues = {"a": project("a", parent="b"), "b": project("b", parent="a")}
    assert [queue.queue for queue in path_up(queues, "a")] == ["a", "b"]
    assert [queue.queue for queue in path_up({"a": queues["a"]}, "a")] == ["a"]


def gang(name, user, tasks=1, on=None, **fields):
    """One that waits, or runs `on` a device."""
    made = Gang(
        name=name, queue=f"vision/{user}", root=Group(roles=(Role(name="default", minimum=1),)),
        **fields,
    )  # fmt: skip
    place = (
        None if on is None else Place(node="n1", amounts=(1000, 0, 0), devices=(on,), milli=1000)
    )
    state = gangs.PENDING if on is None else gangs.RUNNING
    for rank in range(tasks):
        made.add(
            Task(
                name=f"{name}/{rank}", gang=name, shape=Shape(devices=1), rank=rank, state=state,
                place=place,
            )
        )  # fmt: skip
    return made


def fleet(devices):
    return [
        MachineSpec(
            name="n1", devices=devices, device_memory_bytes=80_000, cpu_milli=64_000,
            memory_bytes=2**40,
        )
    ]  # fmt: skip


def sweep_of_bob(devices, since_us):
    """As many of 500 trials running as there are devices, and the rest waiting."""
    return [
        gang(
            f"s{number}", "bob", on=number if number < devices else None, age=number,
            submitted_at_us=number, started_at_us=since_us if number < devices else None,
        )
        for number in range(500)
    ]  # fmt: skip


@pytest.mark.parametrize(("now_us", "state"), [(59, gangs.PENDING), (60, gangs.PIPELINED)])
def test_a_sweep_delays_a_colleague_by_at_most_one_protection_time(now_us, state):
    queues = {"vision": project(users_equal=True, quota_milli=4_000, reclaim_after_us=MINUTE_US)}
    specs = specs_of(queues, {"vision": ["bob", "ada"]})
    colleague = gang("a", "ada", age=1_000, submitted_at_us=1_000)
    there = [*sweep_of_bob(4, since_us=0), colleague]
    world = World(fleet(4), specs, there, now_us=now_us * 1_000_000)
    take_turn(world)
    (task,) = colleague.all_tasks()
    assert task.state == state


def test_work_that_cannot_be_preempted_is_bounded_by_the_project_and_not_by_the_user():
    queues = {"vision": project(users_equal=True, quota_milli=2_000)}
    specs = specs_of(queues, {"vision": ["ada"]})
    firm = [gang(f"f{n}", "ada", age=n, preemptible=False) for n in range(3)]
    take_turn(World(fleet(4), specs, firm, now_us=1))
    assert [task.state for each in firm for task in each.all_tasks()] == [
        gangs.BOUND,
        gangs.BOUND,
        gangs.PENDING,
    ]


amounts = st.integers(-9, 9_000)
names = st.sampled_from("abc")
any_queue = st.builds(
    Queue, queue=names, kind=st.sampled_from(("department", "project", "team")), parent=names,
    quota_milli=amounts, limit_milli=amounts, weight=amounts, priority=amounts,
    cpu_quota_milli=amounts, memory_limit_bytes=amounts, reclaim_after_us=amounts,
    users_equal=st.booleans(), user_max_milli=amounts,
)  # fmt: skip


@given(
    queues=st.lists(any_queue, max_size=4),
    users=st.dictionaries(names, st.lists(st.sampled_from(("ada", "bob", "a/b"))), max_size=3),
)
@settings(max_examples=150, deadline=None)
def test_a_turn_survives_whatever_tree_there_is(queues, users):
    specs = specs_of({queue.queue: queue for queue in queues}, users)
    there = []
    for number, name in enumerate(specs):
        one = gang(f"g{number}", "x", tasks=2, age=number)
        one.queue = name
        there.append(one)
    world = World(fleet(3), specs, there, now_us=1)
    take_turn(world)
    held = [t for each in there for t in each.all_tasks() if t.state == gangs.BOUND]
    assert len(held) <= 3

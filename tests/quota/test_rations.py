"""What a document may guarantee and limit, and what is accepted with a warning."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.decider.testing import given as history_of
from headrace.events.asked import Accelerator, Gang
from headrace.events.jobs import JobAdmitted
from headrace.events.nodes import Device, NodeJoined
from headrace.events.queues import Allowance, Queue, QueueApplyRequested, QueueConfigured
from headrace.quota.decide import DECIDER


def node(gpus=8, model="H100-80GB"):
    devices = tuple(
        Device(device=f"g{i}", index=i, model=model, memory_bytes=80 * 10**9) for i in range(gpus)
    )
    return NodeJoined(
        node="n1", host="n1", address="a", boot="b", incarnation="i", public_key="",
        devices=devices,
    )  # fmt: skip


def asked(name="vision", kind="project", **fields):
    queue = Queue(queue=name, kind=kind, **fields)
    return QueueApplyRequested(name=name, queue=queue, user="ada")


def answers(*events):
    """What each document is answered, on eight GPUs."""
    run = history_of(DECIDER, node())
    found = []
    for event in events:
        run.given(event)
        found += [draft.event for draft in run.settled() if "queue" in draft.event.stream]
    return found


def answer(*events):
    return answers(*events)[-1]


def department(**fields):
    return asked("research", "department", **{"quota_milli": 4_000, **fields})


def below(**fields):
    return asked(parent="research", **fields)


def some(quota=0, limit=-1):
    return Allowance(quota_milli=quota, limit_milli=limit)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"per_type": {"H100": some(-2)}}, "gpus.per_type.H100.quota"),
        ({"per_pool": {"train": some(0, -2)}}, "gpus.per_pool.train.limit"),
        ({"per_type": {"H100": some(2_000, 1_000)}}, "gpus.per_type.H100.quota"),
        ({"per_type": {"H100": some(-1, 1_000)}}, "gpus.per_type.H100.quota"),
        ({"per_pool": {"train": some(2_000)}, "limit_milli": 1_000}, "gpus.per_pool.train.quota"),
        ({"cpu_quota_milli": 2_000, "cpu_limit_milli": 1_000}, "cpu.quota"),
        ({"memory_quota_bytes": 2, "memory_limit_bytes": 1}, "memory.quota"),
        ({"cpu_limit_milli": -2}, "cpu.limit"),
        ({"user_max_milli": -2}, "users.max_gpus"),
        ({"max_duration_us": -1}, "max_duration"),
        ({"evictions_max": 3}, "max_evictions"),
        ({"evictions_max": -3, "evictions_per_us": 1}, "max_evictions.count"),
        ({"pools": {"batch": ("train",)}}, "pools.batch"),
    ],
)
def test_numbers_that_contradict_each_other_are_refused_by_field(fields, field):
    assert answer(asked(**fields)).refusal.field == field


def test_cpu_and_memory_that_nobody_rations_may_be_limited():
    event = answer(asked(cpu_limit_milli=1_000, memory_limit_bytes=10))
    assert isinstance(event, QueueConfigured)


@pytest.mark.parametrize(
    ("above", "fields", "said"),
    [
        (
            {"limit_milli": 8_000},
            {"quota_milli": 16_000},
            (
                "refused: gpus.quota = 16 — department research may hold at most 8 GPUs (limit set by "
                "apply at position 3); gpus.quota: 8"
            ),
        ),
        (
            {"limit_milli": 8_000},
            {"quota_milli": -1},
            (
                "refused: gpus.quota = all — department research may hold at most 8 GPUs (limit set by "
                "apply at position 3); gpus.quota: 8"
            ),
        ),
        (
            {"per_type": {"H100": some(0, 2_500)}},
            {"per_type": {"H100-80GB": some(3_000)}},
            (
                "refused: gpus.per_type.H100-80GB.quota = 3 — department research may hold at most 2.5 "
                "H100-80GB GPUs (limit set by apply at position 3); gpus.per_type.H100-80GB.quota: 2.5"
            ),
        ),
        (
            {"limit_milli": 4_000},
            {"per_pool": {"train": some(5_000)}},
            (
                "refused: gpus.per_pool.train.quota = 5 — department research may hold at most 4 GPUs "
                "of pool train (limit set by apply at position 3); gpus.per_pool.train.quota: 4"
            ),
        ),
        (
            {"memory_limit_bytes": 10},
            {"memory_quota_bytes": 11},
            (
                "refused: memory.quota = 11B — department research may hold at most 10B of memory "
                "(limit set by apply at position 3); memory.quota: 10B"
            ),
        ),
    ],
)
def test_a_guarantee_above_a_limit_above_is_refused_with_who_set_it(above, fields, said):
    assert str(answer(department(**above), below(**fields)).refusal) == said


def test_a_limit_above_everything_else_holds_for_all_below():
    event = answer(
        department(limit_milli=4_000),
        asked("lab", "department", parent="research"),
        asked(parent="lab", quota_milli=5_000),
    )
    assert event.refusal.rule.startswith("department research may hold at most 4 GPUs")


def test_documents_of_one_turn_are_judged_one_after_the_other():
    run = history_of(DECIDER, department(limit_milli=4_000), below(quota_milli=5_000))
    first, second = run.turn()
    assert first.event.change == "created"
    assert second.event.refusal.rule.endswith("4 GPUs (limit set by the apply just before)")


def test_a_quota_beyond_what_there_is_is_accepted_with_a_warning():
    assert answer(asked(quota_milli=24_000)).warning == (
        "accepted, but cannot be had today: vision is guaranteed 24 GPUs and the fleet has 8"
    )
    assert answer(asked(per_type={"A100": some(1_000)})).warning == (
        "accepted, but cannot be had today: vision is guaranteed 1 × A100 and the fleet has 0"
    )
    assert answer(asked(quota_milli=8_000, per_type={"H100": some(8_000)})).warning == ""


def test_projects_that_are_guaranteed_more_than_their_department_are_warned_of():
    event = answer(
        department(), below(quota_milli=3_000), asked("ads", parent="research", quota_milli=2_000)
    )
    assert event.warning == (
        "accepted, but more than its guarantee: the projects of research are guaranteed 5 GPUs "
        "together, and research 4"
    )


def test_a_department_that_is_lowered_below_its_projects_is_warned_of():
    given = (
        department(),
        below(quota_milli=3_000),
        asked("ads", parent="research", quota_milli=1_000),
    )
    assert answer(*given).warning == ""
    assert answer(*given, department(quota_milli=2_000)).warning == (
        "accepted, but more than its guarantee: the projects of research are guaranteed 4 GPUs "
        "together, and research 2"
    )
    typed = {"H100": some(2_000)}
    event = answer(
        department(per_type={"H100": some(1_000)}), below(quota_milli=3_000, per_type=typed)
    )
    assert "guaranteed 2 × H100 together, and research 1" in event.warning


def test_lowering_below_what_was_given_or_is_used_is_accepted():
    gang = Gang(accelerators=(Accelerator(milli=4_000),))
    job = JobAdmitted(
        job="a-1", project="vision", name="a", user="ada", gang=gang, requested_at=1, priority=40,
        preemptible=False,
    )  # fmt: skip
    run = history_of(DECIDER, node(), department(limit_milli=8_000), below(quota_milli=4_000), job)
    run.settled()
    run.given(
        asked("research", "department", limit_milli=2_000),
        below(quota_milli=1_000, limit_milli=1_000),
    )
    events = [draft.event for draft in run.settled()]
    assert [event.change for event in events if isinstance(event, QueueConfigured)] == [
        "updated",
        "updated",
    ]
    assert run.state.firm["vision"].firm_milli == 4_000, "what runs goes on"


def test_the_minimum_of_a_semi_preemptible_gang_must_fit_the_quota():
    gang = Gang(nodes=2, nodes_max=8, accelerators=(Accelerator(milli=1_000),))
    job = JobAdmitted(
        job="a-1", project="vision", name="a", user="ada", gang=gang, requested_at=1, priority=40,
        protected_minimum=True,
    )  # fmt: skip
    run = history_of(DECIDER, node(), asked(quota_milli=2_000))
    run.settled()
    run.given(job, msgspec.structs.replace(job, job="a-2")).settled()
    assert run.state.firm["vision"].firm_milli == 2_000
    assert run.state.jobs["a-2"].held


amounts = st.integers(-3, 9_000)
names = st.sampled_from("abc")
parts = st.dictionaries(
    st.sampled_from(("H100", "H100-80GB", "")), st.builds(some, amounts, amounts), max_size=2
)
queues = st.builds(
    Queue, queue=names, kind=st.sampled_from(("department", "project", "team")),
    parent=st.sampled_from(("", "a", "b", "gone")), quota_milli=amounts, limit_milli=amounts,
    weight=amounts, per_type=parts, per_pool=parts, cpu_quota_milli=amounts,
    cpu_limit_milli=amounts, memory_limit_bytes=amounts, users_equal=st.booleans(),
)  # fmt: skip


@given(
    applied=st.lists(queues, max_size=6),
    in_log=st.lists(queues, max_size=4),
    job=st.sampled_from("abcd"),
)
@settings(max_examples=150, deadline=None)
def test_a_contradictory_tree_in_the_log_is_survived_and_never_made_worse(applied, in_log, job):
    run = history_of(DECIDER, node())
    for queue in in_log:
        run.given(QueueConfigured(name=queue.queue, queue=queue, change="created"))
    gang = Gang(accelerators=(Accelerator(milli=1_000),))
    run.given(
        JobAdmitted(
            job="j", project=job, name="j", user="ada", gang=gang, requested_at=1, priority=40,
            preemptible=False,
        )
    )  # fmt: skip
    run.settled()
    for queue in applied:
        run.given(QueueApplyRequested(name=queue.queue, queue=queue, user="ada"))
        (event, *_) = (draft.event for draft in run.settled())
        if isinstance(event, QueueConfigured):
            assert queue.kind in ("department", "project")
            assert queue.limit_milli == -1 or queue.quota_milli <= queue.limit_milli
            assert queue.parent in ("", *run.state.queues)

"""No limit of a part of the fleet is passed, and no quota of one taken from, whatever comes."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.scheduling.parted import BIG, gang, machine, queue, world

from headrace.scheduling import gangs
from headrace.scheduling.actions import ACTIONS, take_turn
from headrace.scheduling.gangs import Gang, Task
from headrace.scheduling.settings import Settings

machines = st.lists(
    st.tuples(st.sampled_from(("H100", "H100-80GB", "A100")), st.sampled_from(("", "train"))),
    min_size=1,
    max_size=4,
)
some = st.sampled_from(((0, -1), (0, 2), (2, -1), (2, 4), (4, 4)))
trees = st.lists(st.tuples(st.integers(0, 6), some, some, some), min_size=3, max_size=3)
wanted = st.tuples(
    st.sampled_from(("ads", "vision")),
    st.integers(1, 3),
    st.integers(1, 2),
    st.sampled_from(((), (("H100",), ("A100",)), (("H100", "train"), ("", ""), ("A100",)))),
    st.sampled_from(("", "H100", "A100")),
    st.booleans(),
)


def tree_of(drawn):
    named = zip(("all", "ads", "vision"), drawn, strict=True)
    return [
        queue(
            name, quota=quota, age=age, parent="" if name == "all" else "all", h100=h100,
            a100=a100, train=train,
        )
        for age, (name, (quota, h100, a100, train)) in enumerate(named)
    ]  # fmt: skip


def next_turn(old, coming):
    """What was bound runs, what was evicted or promised waits; and who is new."""
    there = []
    for was in old.gangs.values():
        made = Gang(
            name=was.name, queue=was.queue, root=was.root, preemptible=was.preemptible, age=was.age,
            options=was.options, started_at_us=1,
        )  # fmt: skip
        for task in was.all_tasks():
            runs = task.state in (gangs.BOUND, gangs.RUNNING)
            made.add(
                Task(
                    name=task.name, gang=was.name, shape=task.shape, rank=task.rank,
                    state=gangs.RUNNING if runs else gangs.PENDING,
                    place=task.place if runs else None,
                )
            )  # fmt: skip
        there.append(made)
    new = 1 + max((one.age for one in there), default=-1)
    for number, (name, tasks, devices, options, model, firm) in enumerate(coming, new):
        there.append(
            gang(
                f"g{number}", name, tasks=tasks, devices=devices, options=options, model=model,
                firm=firm,
            )
        )  # fmt: skip
    return there


def holdings(turn, states=gangs.PLACED):
    """Milli-GPUs by queue and part, counted from the tasks alone; and of them those firm."""
    held, firm = Counter(), Counter()
    for one in turn.gangs.values():
        for task in one.all_tasks():
            if task.state in states:
                place = task.coming or task.place
                spec = turn.machines[place.node].spec
                for part in turn.accounts.parts.all:
                    if part.has(spec.model, spec.pool):
                        for name in (one.queue, "all"):
                            held[name, part] += place.amounts[0]
                            firm[name, part] += 0 if one.preemptible else place.amounts[0]
    return held, firm


def check(turn):
    held, firm = holdings(turn)
    for name, account in turn.accounts.by_name.items():
        for number, part in enumerate(turn.accounts.parts.all):
            ration = account.spec.parts[part]
            assert account.stakes[number].held == held[name, part]
            assert account.stakes[number].firm == firm[name, part]
            assert ration.limit == -1 or held[name, part] <= ration.limit
            assert ration.firm_limit == -1 or firm[name, part] <= ration.firm_limit


rounds = st.lists(st.lists(wanted, max_size=5), min_size=1, max_size=3)


@given(kinds=machines, drawn=trees, rounds=rounds, reserve=st.booleans())
@settings(max_examples=60, deadline=None)
def test_no_limit_of_a_part_is_ever_exceeded(kinds, drawn, rounds, reserve):
    specs = [machine(f"n{n}", model, 4, pool) for n, (model, pool) in enumerate(kinds)]
    turn = world(specs, tree_of(drawn), [])
    for coming in rounds:
        turn = world(specs, tree_of(drawn), next_turn(turn, coming))
        turn.set_settings(Settings(reserve_after_us=0 if reserve else BIG))
        for action in ACTIONS:
            take_turn(turn, (action,))
            check(turn)


@given(kinds=machines, drawn=trees, there=st.lists(wanted, max_size=8), new=wanted)
@settings(max_examples=60, deadline=None)
def test_what_is_within_a_quota_of_a_part_is_never_reclaimed(kinds, drawn, there, new):
    specs = [machine(f"n{n}", model, 4, pool) for n, (model, pool) in enumerate(kinds)]
    generous = [queue("all"), queue("ads", parent="all"), queue("vision", parent="all")]
    full = world(specs, generous, next_turn(world(specs, generous, []), there))
    take_turn(full, ("allocate",))
    for name in [one.name for one in full.gangs.values() if not one.any_in(gangs.PLACED)]:
        full.leave(name)
    turn = world(specs, tree_of(drawn), next_turn(full, [new]))
    before, _ = holdings(turn)
    take_turn(turn, ("allocate", "reclaim"))
    for one in turn.gangs.values():
        for task in one.all_tasks():
            if task.state == gangs.EVICTED:
                spec = turn.machines[task.place.node].spec
                for part in turn.accounts.parts.all:
                    if part.has(spec.model, spec.pool):
                        assert before[one.queue, part] > turn.queues[one.queue].parts[part].quota

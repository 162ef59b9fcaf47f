"""Nobody is searched for who asks for the same or more than one refused, and everybody else is."""

import pytest

from headrace.scheduling.gangs import Constraint, Gang, Group, Role, Shape, Task
from headrace.scheduling.refusals import Refusals

REFUSED = {"devices": 2, "cpu_milli": 1000, "memory_bytes": 10}


def gang(*, tasks=1, queue="ads", priority=40, constraint=None, **shape):
    root = Group(roles=(Role(name="worker", minimum=tasks),), constraint=constraint)
    made = Gang(name="any", queue=queue, root=root, priority=priority, tasks={}, counts={})
    for rank in range(tasks):
        task = Task(
            name=f"any-{rank}", gang="any", role="worker", rank=rank, shape=Shape(**REFUSED | shape)
        )
        made.add(task)
    return made


def covered(one):
    refusals = Refusals()
    refusals.add(gang())
    return refusals.cover(one)


@pytest.mark.parametrize("more", [{}, {"devices": 3}, {"cpu_milli": 2000}, {"tasks": 2}])
def test_who_asks_for_the_same_or_more_is_covered(more):
    assert covered(gang(**more))


@pytest.mark.parametrize(
    "other",
    [
        {"devices": 1},
        {"devices": 8, "cpu_milli": 999},
        {"devices": 4, "model": "H100"},
        {"devices": 4, "labels": (("pool", "build"),)},
        {"queue": "vision"},
        {"priority": 41},
        {"constraint": Constraint(topology="fabric", required="rack")},
    ],
)
def test_who_asks_for_less_or_for_something_else_is_not(other):
    assert not covered(gang(**other))


def test_nobody_is_covered_after_a_change():
    refusals = Refusals()
    refusals.add(gang())
    refusals.clear()
    assert not refusals.cover(gang())


def test_a_gang_that_grows_is_never_compared():
    growing = gang(tasks=2)
    growing.move(growing.tasks["worker"][0], "running")
    assert not covered(growing)

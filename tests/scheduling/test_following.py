"""A world that is changed step by step decides as one that is made anew for every turn."""

import copy

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.scheduling import gangs
from headrace.scheduling.actions import take_turn
from headrace.scheduling.division import QueueSpec, Ration
from headrace.scheduling.gangs import Gang, Group, Role, Shape, Task
from headrace.scheduling.machines import MachineSpec
from headrace.scheduling.reservations import renewed
from headrace.scheduling.settings import Settings
from headrace.scheduling.withdrawal import keep
from headrace.scheduling.world import World

FREE = Ration(quota=-1)
TURN_US = 60_000_000
SETTINGS = Settings(reserve_after_us=2 * TURN_US, reservations_max=3, max_duration_us=9 * TURN_US)
arrives = st.tuples(
    st.just("arrives"),
    st.sampled_from(("ads", "vision")),
    st.integers(1, 3),  # tasks
    st.integers(0, 2),  # of which may be missing
    st.sampled_from((250, 500, 1000, 2000)),
    st.sampled_from((20, 50, 80)),
    st.sampled_from((0, TURN_US)),  # patience
)
step = st.one_of(
    arrives,
    arrives,
    st.tuples(st.just("ends"), st.integers(0, 20)),
    st.tuples(st.just("machine"), st.integers(0, 3), st.integers(1, 4), st.booleans()),
    st.tuples(st.just("drops"), st.integers(0, 3)),
    st.tuples(st.just("queues"), st.integers(0, 4), st.integers(0, 4)),
    st.tuples(st.just("turn"), st.integers(1, 3)),
)


class Followed:
    """What is known of a cluster, and the world that follows it."""

    def __init__(self):
        self.machines, self.gangs, self.number, self.now_us = {}, {}, 0, 0
        self.world, self.reservations = World(settings=SETTINGS), {}
        for number in range(2):
            self.machine(number, 4, accepting=True)
        self.queues(2, 2)

    def arrives(self, queue, *asked):
        tasks, surplus, milli, priority, patience_us = asked
        self.number += 1
        name = f"g{self.number}"
        root = Group(roles=(Role(name="default", minimum=max(1, tasks - surplus)),))
        gang = Gang(
            name=name, queue=queue, root=root, priority=priority, age=self.number,
            submitted_at_us=self.now_us, patience_us=patience_us, tasks={}, counts={},
        )  # fmt: skip
        whole, share = divmod(milli, 1000)
        shape = Shape(devices=whole or 1, device_milli=share or 1000)
        for rank in range(tasks):
            gang.add(Task(name=f"{name}-{rank}", gang=name, shape=shape, rank=rank))
        self.enters(gang)

    def enters(self, gang):
        self.gangs[gang.name] = gang
        self.world.enter(copy.deepcopy(gang))

    def ends(self, number):
        if self.gangs.pop(f"g{number}", None) is not None:
            self.world.leave(f"g{number}")

    def machine(self, number, devices, accepting):
        name = f"n{number}"
        old = self.machines.get(name)
        spec = MachineSpec(
            name=name, devices=old.devices if old else devices, device_memory_bytes=80_000,
            cpu_milli=64_000, accepting=accepting,
        )  # fmt: skip
        self.machines[name] = spec
        self.world.set_machine(spec)

    def drops(self, number):
        name = f"n{number}"
        if self.machines.pop(name, None) is None:
            return
        for gang in list(self.gangs.values()):
            if any(task.place is not None and task.place.node == name for task in tasks_of(gang)):
                self.enters(later(gang, self.now_us, lost=name))
        self.world.drop_machine(name)

    def queues(self, ads, vision):
        self.tree = {
            name: QueueSpec(queue=name, age=age, rations=(Ration(quota=quota * 1000), FREE, FREE))
            for age, (name, quota) in enumerate((("ads", ads), ("vision", vision)))
        }
        self.world.set_queues(self.tree)

    def turn(self, minutes):
        self.now_us += minutes * TURN_US
        anew = World(
            self.machines.values(), self.tree, copy.deepcopy(list(self.gangs.values())),
            now_us=self.now_us, settings=SETTINGS,
        )  # fmt: skip
        keep(anew, self.reservations)
        reserved = renewed(anew)
        take_turn(anew)
        before = outcome(self.world)
        self.world.begin(self.now_us)
        assert shares(self.world) == shares(anew)
        mark = self.world.mark()
        keep(self.world, self.reservations)
        self.reservations = renewed(self.world)
        assert self.reservations == reserved
        take_turn(self.world)
        assert outcome(self.world) == outcome(anew)
        changed = {task.name for task in self.world.changed(mark)}
        self.world.back_to(mark)
        assert outcome(self.world) == before
        assert not self.world.reservations
        decided = outcome(anew)
        assert {name for name in decided if decided[name] != before[name]} <= changed
        for name in dict.fromkeys(name.partition("-")[0] for name in sorted(changed)):
            self.enters(later(anew.gangs[name], self.now_us))


def later(old, now_us, lost=""):
    """The gang once what was decided has happened: what was evicted or promised waits."""
    gang = Gang(
        name=old.name, queue=old.queue, root=old.root, priority=old.priority, age=old.age,
        submitted_at_us=old.submitted_at_us, patience_us=old.patience_us, tasks={}, counts={},
    )  # fmt: skip
    for task in tasks_of(old):
        runs = task.state in (gangs.BOUND, gangs.RUNNING) and task.place.node != lost
        made = Task(name=task.name, gang=old.name, shape=task.shape, rank=task.rank)
        if runs:
            made.state, made.place = gangs.RUNNING, task.place
            gang.started_at_us = now_us if old.started_at_us is None else old.started_at_us
        gang.add(made)
    return gang


def tasks_of(gang):
    return list(gang.all_tasks())


def outcome(world):
    return {
        task.name: (task.state, task.place, task.coming)
        for gang in world.gangs.values()
        for task in tasks_of(gang)
    }


def shares(world):
    return {name: account.share for name, account in world.accounts.by_name.items()}


@given(history=st.lists(step, max_size=25))
@settings(max_examples=150, deadline=None)
def test_a_world_that_follows_what_happens_decides_as_one_made_anew(history):
    followed = Followed()
    for what, *how in [*history, ("turn", 1)]:
        getattr(followed, what)(*how)

"""What a turn of the core does with budgets on evictions."""

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.scheduling import gangs
from headrace.scheduling.actions import take_turn
from headrace.scheduling.division import QueueSpec, Ration
from headrace.scheduling.eviction_budgets import EvictionBudgets, counted
from headrace.scheduling.gangs import Gang, Group, Place, Role, Shape, Task
from headrace.scheduling.machines import MachineSpec
from headrace.scheduling.world import World

FREE = Ration(quota=-1)
NOW_US = 1_000_000_000
PER_US = 60_000_000
TREE = {"top": "", "ads": "top", "lab": "top", "vision": "top"}


def gang(name, queue, age, devices, place=None):
    root = Group(roles=(Role(name="default", minimum=1),))
    made = Gang(name=name, queue=queue, root=root, age=age)
    task = Task(name=f"{name}-0", gang=name, shape=Shape(devices=devices))
    if place is not None:
        task.state, task.place = gangs.RUNNING, place
    made.add(task)
    return made


def world(budgets, before, there, asked):
    """Machines of four GPUs filled one by one, and gangs of vision that may have all of it."""
    queues = {
        name: QueueSpec(
            queue=name, parent=parent, age=age,
            rations=(Ration(quota=-1 if name in ("top", "vision") else 0), FREE, FREE),
            evictions_max=budgets.get(name, 0), evictions_per_us=PER_US,
        )
        for age, (name, parent) in enumerate(TREE.items())
    }  # fmt: skip
    running = []
    for number, queue in enumerate(there):
        node, device = divmod(number, 4)
        place = Place(node=f"n{node}", amounts=(1000, 0, 0), devices=(device,), milli=1000)
        running.append(gang(f"g{number}", queue, number, 1, place))
    specs = [MachineSpec(name=f"n{node}", devices=4) for node in range(-(-len(there) // 4))]
    waiting = [gang(f"v{number}", "vision", 100 + number, n) for number, n in enumerate(asked)]
    made = World(specs, queues, [*running, *waiting], now_us=NOW_US)
    made.evictions = before
    return made


def stopped(turn):
    return [
        one for one in turn.gangs.values()
        if any(t.place is not None and t.state in (gangs.EVICTED, gangs.PIPELINED)
               for t in one.all_tasks())
    ]  # fmt: skip


@given(
    budgets=st.dictionaries(st.sampled_from(sorted(TREE)), st.integers(0, 4)),
    before=st.dictionaries(
        st.sampled_from(sorted(TREE)),
        st.lists(st.integers(NOW_US - 2 * PER_US, NOW_US), max_size=4).map(sorted),
    ),
    there=st.lists(st.sampled_from(("ads", "lab")), min_size=4, max_size=12),
    asked=st.lists(st.integers(1, 4), min_size=1, max_size=4),
)
@settings(max_examples=150, deadline=None)
def test_no_turn_stops_more_than_is_left_of_any_budget(budgets, before, there, asked):
    turn = world(budgets, before, there, asked)
    take_turn(turn)
    for name, most in budgets.items():
        past = [us for us in before.get(name, []) if us > NOW_US - PER_US]
        of_it = [one for one in stopped(turn) if name in (one.queue, TREE[one.queue])]
        assert most == 0 or not of_it or len(of_it) + len(past) <= most


def test_a_spent_budget_turns_the_search_to_another_queue():
    turn = world({"ads": 1}, {"ads": [NOW_US - 1]}, ["lab", "lab", "ads", "ads"], [2])
    take_turn(turn)
    assert [one.queue for one in stopped(turn)] == ["lab", "lab"]
    spent = EvictionBudgets(turn).spent_on(turn.gangs["g3"])
    assert (spent.queue, spent.free_at_us) == ("ads", NOW_US - 1 + PER_US)


def test_gangs_of_one_turn_share_the_budget_and_a_gang_counts_once():
    turn = world({"top": 2}, {}, ["ads"] * 4, [1, 1, 1])
    take_turn(turn)
    first, second = stopped(turn)
    budgets = EvictionBudgets(turn)
    assert budgets.allow([first, second])
    assert not budgets.allow([turn.gangs["g0"]])


def test_an_eviction_counts_until_exactly_its_window_later():
    turn = world({"ads": 1}, {"ads": [NOW_US - PER_US]}, ["ads"] * 4, [1])
    take_turn(turn)
    assert len(stopped(turn)) == 1
    turn = world({"ads": 1}, {"ads": [NOW_US - PER_US + 1]}, ["ads"] * 4, [1])
    take_turn(turn)
    assert stopped(turn) == []


def test_no_more_evictions_are_kept_than_the_budget_has():
    assert counted([10, 20, 30], 40, 3, 100) == [20, 30, 40]
    assert counted([10, 20, 30], 40, 3, 15) == [30, 40]
    assert counted([10, 50], 40, 3, 100) == [10, 40, 50]

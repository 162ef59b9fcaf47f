"""What queues may have of parts of the fleet: of one GPU model, of one pool."""

import pytest
from tests.scheduling.parted import (
    A100,
    TRAIN,
    evicted,
    gang,
    machine,
    queue,
    running,
    where,
    world,
)

from headrace.scheduling.actions import take_turn
from headrace.scheduling.explain import why_waiting
from headrace.scheduling.parts import Parts, type_part


def test_a_gpu_is_of_every_part_that_fits_it():
    parts = Parts([TRAIN, type_part("h100"), type_part("H100-80GB"), A100])
    assert [p.gpus for p in parts.all] == [
        "GPUs of pool train", "A100 GPUs", "H100 GPUs", "H100-80GB GPUs",
    ]  # fmt: skip
    assert parts.cell("H100-80GB-PCIe", "train") == (0, 2, 3)
    assert parts.cell("H1000", "other") == ()


def test_no_more_is_placed_than_the_limit_of_a_type_allows():
    asked = [gang(f"g{n}", model="H100") for n in range(6)]
    turn = world([machine("a", "H100-80GB")], [queue("vision", h100=(0, 4))], asked)
    take_turn(turn)
    assert sorted(where(turn)) == ["g0", "g1", "g2", "g3"]
    assert why_waiting(turn, turn.gangs["g5"]).text == (
        "vision may hold at most 4 H100 GPUs and holds 4; this needs 1"
    )


def test_the_next_kind_is_tried_when_the_first_is_over_its_limit():
    asked = [gang(f"g{n}", devices=4, options=(("H100",), ("A100",))) for n in range(2)]
    specs = [machine("a", "H100"), machine("b", "A100")]
    turn = world(specs, [queue("vision", h100=(0, 4))], asked)
    take_turn(turn)
    assert where(turn) == {"g0": ["a"], "g1": ["b"]}


def test_the_next_pool_is_tried_when_the_first_is_over_its_limit():
    asked = [gang(f"g{n}", devices=4, options=(("", "train"), ("", "spot"))) for n in range(2)]
    specs = [machine("a", "H100", pool="train"), machine("b", "H100", pool="spot")]
    turn = world(specs, [queue("vision", train=(0, 4))], asked)
    take_turn(turn)
    assert where(turn) == {"g0": ["a"], "g1": ["b"]}


def test_workers_that_take_any_gpu_go_to_where_more_is_allowed():
    specs = [machine("a", "H100"), machine("b", "A100")]
    turn = world(specs, [queue("vision", h100=(0, 2))], [gang("g0", tasks=8)])
    take_turn(turn)
    assert sorted(where(turn)["g0"]) == ["a", "a", "b", "b", "b", "b", "b", "b"]


def test_a_limit_of_one_kind_is_told_beside_the_lack_of_room_on_the_others():
    specs = [machine("a", "H100"), machine("b", "A100")]
    there = [running("g0", "vision", "a", range(4)), running("g1", "vision", "b", range(6))]
    waiting = gang("g2", devices=4, options=(("H100",), ("A100",)))
    turn = world(specs, [queue("vision", h100=(0, 4))], [*there, waiting])
    found = why_waiting(turn, waiting)
    assert found.rule == "no-room"
    assert found.text == (
        "needs 1 node with H100:4 each or 1 node with A100:4 each; 0 free now (6 GPUs free in all)"
        "; vision may hold at most 4 H100 GPUs"
    )


def test_a_limit_above_the_project_counts_what_its_sisters_hold():
    tree = [
        queue("research", h100=(0, 4)),
        queue("vision", parent="research"),
        queue("speech", parent="research", age=1),
    ]
    asked = [gang("g0", "vision", devices=2), gang("g1", "speech", devices=3)]
    turn = world([machine("a", "H100")], tree, asked)
    take_turn(turn)
    assert list(where(turn)) == ["g0"]
    assert why_waiting(turn, turn.gangs["g1"]).names["queue"] == "research"


def test_what_cannot_be_preempted_stays_within_the_quota_of_a_type_that_is_given():
    tree = [queue("vision", quota=16, h100=(2, -1))]
    asked = [gang(f"g{n}", devices=2, options=(("H100",), ("A100",)), firm=True) for n in range(2)]
    turn = world([machine("a", "H100"), machine("b", "A100")], tree, asked)
    take_turn(turn)
    assert where(turn) == {"g0": ["a"], "g1": ["b"]}


def full_of_ads(tree, devices=(4, 4)):
    """8 H100s and 8 A100s, the H100s all with ads, in two jobs."""
    there, first = [], 0
    for number, count in enumerate(devices):
        there.append(running(f"g{number}", "ads", "a", range(first, first + count), model="H100"))
        first += count
    return lambda *more: world([machine("a", "H100"), machine("b", "A100")], tree, [*there, *more])


def test_a_quota_of_a_type_takes_back_what_others_hold_beyond_their_part():
    tree = [queue("ads", quota=16), queue("vision", age=1, h100=(4, -1))]
    turn = full_of_ads(tree)(gang("g9", devices=4, model="H100"))
    take_turn(turn)
    assert evicted(turn) in (["g0"], ["g1"])
    assert turn.gains[evicted(turn)[0]].rule == "reclaim"


def test_no_quota_of_a_type_takes_nothing_from_who_is_within_its_quota():
    tree = [queue("ads", quota=16), queue("vision", age=1, a100=(4, -1))]
    turn = full_of_ads(tree)(gang("g9", devices=4, model="H100"))
    take_turn(turn)
    assert evicted(turn) == []


def test_what_is_within_the_quota_of_a_type_is_not_taken_by_a_wider_quota():
    tree = [queue("ads", h100=(8, -1)), queue("vision", age=1, quota=16)]
    turn = full_of_ads(tree)(gang("g9", devices=4, model="H100"))
    take_turn(turn)
    assert evicted(turn) == []


def test_only_what_is_beyond_the_quota_of_a_type_is_taken():
    tree = [queue("ads", h100=(4, -1)), queue("vision", age=1, quota=16)]
    turn = full_of_ads(tree)(*(gang(f"g{n}", devices=4, model="H100") for n in (8, 9)))
    take_turn(turn)
    assert len(evicted(turn)) == 1


def test_what_is_guaranteed_below_a_department_is_guaranteed_among_departments():
    tree = [
        queue("sales", quota=8),
        queue("ads", quota=8, parent="sales"),
        queue("research", age=1, h100=(4, -1)),
        queue("vision", parent="research", h100=(4, -1)),
    ]
    turn = full_of_ads(tree)(gang("g9", devices=4, model="H100"))
    take_turn(turn)
    assert len(evicted(turn)) == 1


def test_a_quota_of_a_pool_takes_back_what_others_hold_on_its_nodes():
    tree = [queue("ads", quota=16), queue("vision", age=1, train=(4, -1))]
    specs = [machine("a", "H100", pool="train"), machine("b", "H100", pool="spot")]
    for name, pool, stopped in (("g8", "train", ["g0"]), ("g9", "spot", [])):
        there = [running("g0", "ads", "a", range(8)), running("g1", "ads", "b", range(8))]
        turn = world(specs, tree, [*there, gang(name, devices=4, pool=pool)])
        take_turn(turn)
        assert evicted(turn) == stopped


def test_a_user_takes_back_what_the_project_is_guaranteed_of_a_type():
    tree = [
        queue("ads", quota=16),
        queue("vision", age=1, h100=(4, -1)),
        queue("vision/ada", parent="vision"),
        queue("vision/bob", parent="vision"),
    ]
    waiting = [gang(f"g{n}", f"vision/{user}", devices=2) for n, user in ((8, "ada"), (9, "bob"))]
    there = [running(f"g{n}", "ads", "a", (2 * n, 2 * n + 1)) for n in range(4)]
    turn = world([machine("a", "H100")], tree, [*there, *waiting])
    take_turn(turn)
    assert len(evicted(turn)) == 2
    assert sorted(where(turn).keys() - evicted(turn) - {"g0", "g1", "g2", "g3"}) == ["g8", "g9"]


@pytest.mark.parametrize("change", ["model", "pool", "gone", "tree"])
def test_books_kept_step_by_step_are_as_if_written_anew(change):
    tree = [queue("ads"), queue("vision", age=1, h100=(4, -1), train=(0, 6))]
    specs = [machine("a", "H100", pool="train"), machine("b", "A100")]
    there = [running("g0", "ads", "a", (0, 1)), gang("g1", devices=4, model="H100")]
    kept = world(specs, tree, there)
    if change == "model":
        specs[0] = machine("a", "A100", pool="train")
    elif change == "pool":
        specs[0] = machine("a", "H100")
    elif change == "tree":
        tree[0] = queue("ads", a100=(1, 2))
        kept.set_queues({one.queue: one for one in tree})
    if change == "gone":
        kept.drop_machine(specs.pop(0).name)
    else:
        kept.set_machine(specs[0])
    kept.begin(60_000_000)
    anew = world(specs, tree, there)
    for name, account in anew.accounts.by_name.items():
        mine = kept.accounts.by_name[name].stakes
        assert [s.standing for s in mine] == [s.standing for s in account.stakes]
    assert [
        {name: milli for name, milli in wanted.items() if milli} for wanted in kept.parted.wanted
    ] == anew.parted.wanted


def test_who_is_within_its_quota_of_a_type_comes_before_who_has_none_of_it():
    tree = [queue("ads", quota=16), queue("vision", age=1, h100=(4, -1))]
    asked = [gang("g0", "ads", devices=8, model="H100"), gang("g9", devices=4, model="H100")]
    turn = world([machine("a", "H100"), machine("b", "A100")], tree, asked)
    take_turn(turn, ("allocate",))
    assert where(turn) == {"g9": ["a"]}


def test_beyond_its_quota_of_a_type_a_queue_has_no_turn_before_others():
    tree = [queue("ads", quota=16), queue("vision", age=1, h100=(2, -1))]
    asked = [gang("g0", "ads", devices=8, model="H100"), gang("g9", devices=4, model="H100")]
    turn = world([machine("a", "H100"), machine("b", "A100")], tree, asked)
    take_turn(turn, ("allocate",))
    assert where(turn) == {"g0": ["a"]}

"""`make bench-scheduler`: what turns of the scheduling core cost on large clusters, and their work.

Rule: nothing here passes or fails; a figure is printed with its target and read by a person. What
is timed is the turn alone, with the cyclic garbage collector off.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TypeVar

from tests.bench.printing import facts, row
from tests.bench.scheduler import clusters, service

from headrace.events import encode
from headrace.events.gangs import Act, GangPlaced, Share, Worker
from headrace.placement.bench import History
from headrace.scheduling.actions import take_turn
from headrace.scheduling.explain import why_waiting
from headrace.scheduling.gangs import BOUND, PIPELINED, Gang, Place
from headrace.scheduling.world import World

T = TypeVar("T")
SMALL = 10  # how many times fewer machines work is compared with


def main() -> None:
    """Measure everything, one after the other."""
    parser = argparse.ArgumentParser(prog="bench-scheduler", description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pending", type=int, default=100_000)
    given = parser.parse_args()
    print(f"{facts()}, one process; acts and events are part of filling")
    row("figure", "measured", "target")
    fill(given.nodes)
    impossible(given.nodes // 10)
    torn(given.nodes // 10)
    reclaim(given.nodes // 10)
    work(given.nodes)
    waiting(given.nodes, given.pending)
    sharing(given.nodes // 10, given.pending)


def fill(nodes: int) -> None:
    """From empty to full with gangs of 1, 8 and 64 GPUs and fractions."""
    gangs = list(clusters.mix(nodes * clusters.GPUS))
    world, built_ms = timed(lambda: clusters.world(nodes, gangs))
    written, turn_ms = timed(lambda: placed_events(world))
    assert all(written)
    placed = tasks_in(world, BOUND)
    asked = sum(len(list(gang.all_tasks())) for gang in gangs)
    full = 100 - sum(m.free_milli for m in world.machines.values()) // (nodes * 80)
    name = f"{nodes} nodes, empty to {full} % full: {placed} of {asked} tasks"
    row(name, f"{placed * 1000 / turn_ms:.0f} /s", "≥ 2000 /s")
    row(f"  reading {nodes} nodes and {len(gangs)} gangs into a world", f"{built_ms:.0f} ms", "-")


def placed_events(world: World) -> list[bytes]:
    """What a turn that allocates has written to the log: an event with its act for every gang."""
    mark = world.mark()
    take_turn(world, ("allocate",))
    names = dict.fromkeys(task.gang for task in world.changed(mark))
    return [encode(event_of(world, world.gangs[name])) for name in names]


def event_of(world: World, gang: Gang) -> GangPlaced:
    """The gang's placement with the rule and the numbers behind it."""
    workers = tuple(worker_of(t.rank, t.place) for t in gang.all_tasks() if t.place)
    account = world.accounts.by_name[gang.queue]
    milli = sum(share.milli for worker in workers for share in worker.devices)
    numbers = {
        "gpu_milli": milli, "used_milli": account.held[0], "quota_milli": account.spec.quota[0],
    }  # fmt: skip
    act = Act(rule="fits", numbers=numbers, names={"policy": world.settings.policy})
    return GangPlaced(
        job=gang.name, project=gang.queue, attempt=1, workers=workers, requested_at=gang.age,
        milli=milli, act=act,
    )  # fmt: skip


def worker_of(rank: int, place: Place) -> Worker:
    """One worker of the event."""
    devices = tuple(Share(device=str(device), milli=place.milli) for device in place.devices)
    return Worker(rank=rank, node=place.node, address=place.node, devices=devices)


def waiting(nodes: int, pending: int) -> None:
    """Placement itself on a full fleet with a long queue: a node comes free, then nothing changes."""
    history, built_ms = timed(lambda: service.full(nodes, pending))
    _, first_ms = timed(lambda: service.written(history))
    row(f"{pending} waiting: the first turn of all", f"{first_ms:.0f} ms", "≤ 250 ms")
    while service.written(history):
        pass
    applying(history, pending)
    service.end(history, "run-0")
    turns = list(turns_of(history))
    row(f"{pending} waiting: turns after one node came free", f"{len(turns)}", "-")
    row("  the longest of them", f"{max(turns):.0f} ms", "≤ 200 ms")
    service.written(history)  # forgets the moments of those who have begun since
    _, idle_ms = timed(lambda: service.written(history))
    row(f"{pending} waiting: a turn in which nothing changed", f"{idle_ms:.1f} ms", "≤ 2 ms")
    rule, why_ms = timed(lambda: service.explained(history, f"wait-{pending - 1}"))
    row(f"  why a job waits ({rule})", f"{why_ms:.0f} ms", "-")
    row(f"  folding {nodes} nodes and {pending} jobs", f"{built_ms:.0f} ms", "-")


def applying(history: History, pending: int) -> None:
    """Administrators' documents while everybody waits: folded, and the turns that follow from each."""
    for name, event in service.documents():
        _, folded_ms = timed(lambda event=event: history.add(event))  # type: ignore[misc]
        turns = list(turns_of(history))
        figure = f"{folded_ms:.0f} + {max(turns):.0f} ms"
        row(f"{pending} waiting: {name}: folding, longest turn", figure, "≤ 250 ms")


def sharing(nodes: int, pending: int) -> None:
    """One project with all that waits: its users share equally from now on, and then do not."""
    history = service.of_one_project(nodes, pending)
    while service.written(history):
        pass
    for name, event in service.shared():
        _, folded_ms = timed(lambda event=event: history.add(event))  # type: ignore[misc]
        turns = list(turns_of(history))
        figure = f"{folded_ms:.0f} + {max(turns):.0f} ms"
        row(f"{pending} waiting in one queue: {name}: folding, longest turn", figure, "≤ 250 ms")


def turns_of(history: History) -> Iterator[float]:
    """How long each turn takes until nothing more is decided."""
    decided = 1
    while decided:
        decided, turn_ms = timed(lambda: service.written(history))
        yield turn_ms


def reclaim(nodes: int) -> None:
    """Half of a full cluster for one gang of the queue it is guaranteed to."""
    workers = nodes // 2
    taker = clusters.gang("taker", workers=workers, devices=8, queue="ours", age=nodes)
    gangs = [*clusters.running_everywhere(nodes), taker]
    world = clusters.world(nodes, gangs, quota_milli=workers * 8000)
    _, turn_ms = timed(lambda: take_turn(world))
    placed = sum(task.state == PIPELINED for task in taker.all_tasks())
    name = f"reclaim {placed * 8} GPUs on {nodes} full nodes for {workers} workers"
    row(name, f"{turn_ms:.0f} ms", "≤ 1000 ms")


def impossible(nodes: int) -> None:
    """80 GPUs within a rack that has 72, in a cluster full of what could be reclaimed."""
    taker = clusters.gang("taker", workers=10, devices=8, queue="ours", age=nodes, rack=True)
    gangs = [*clusters.running_everywhere(nodes), taker]
    world = clusters.world(nodes, gangs, quota_milli=80_000)
    _, turn_ms = timed(lambda: take_turn(world))
    outcome = "cannot" if not tasks_in(world, PIPELINED) else "WRONGLY can"
    name = f"an 80-GPU gang {outcome} be placed within 72-GPU racks"
    row(name, f"{turn_ms:.0f} ms", "≤ 100 ms")
    small = clusters.gang("small", workers=10, devices=8, queue="theirs", age=nodes)
    world = clusters.world(nodes, [*clusters.running_everywhere(nodes), small])
    _, turn_ms = timed(lambda: take_turn(world))
    outcome = "cannot" if not tasks_in(world, PIPELINED) else "WRONGLY can"
    name = f"an 80-GPU gang {outcome} be placed on {nodes} full nodes"
    row(name, f"{turn_ms:.0f} ms", "≤ 100 ms")


def torn(nodes: int) -> None:
    """The same where every total suffices, told with its reason: the racks, what may be taken back
    and how long it has run forbid it together.
    """
    taker = clusters.gang("taker", workers=10, devices=8, queue="ours", age=nodes, rack=True)
    world = clusters.torn(nodes, taker)
    why, turn_ms = timed(lambda: (take_turn(world), why_waiting(world, taker))[1])
    outcome = "cannot" if not tasks_in(world, PIPELINED) else "WRONGLY can"
    name = f"  {outcome} with {world.free_milli // 1000} GPUs free, and why"
    row(name, f"{turn_ms:.0f} ms", "≤ 100 ms")
    print(f"    {why.rule}: {why.text}\n    {why.kept}")


def work(nodes: int) -> None:
    """Calls per placement on a tenth of the machines and on all of them, filled to a tenth."""
    few, many = (calls_per_placement(n) for n in (nodes // SMALL, nodes))
    name = f"calls per placement, {nodes // SMALL} and {nodes} nodes: {few} and {many}"
    row(name, f"{many / few:.2f} x", "≤ 2 x")


def calls_per_placement(nodes: int) -> int:
    """Function calls of a turn that fills a tenth of the cluster, per task placed."""
    world = clusters.world(nodes, clusters.mix(nodes * clusters.GPUS // 10))
    calls = counted(lambda: take_turn(world, ("allocate",)))
    return calls // tasks_in(world, BOUND)


def tasks_in(world: World, state: str) -> int:
    """How many tasks are in this state."""
    return sum(task.state == state for gang in world.gangs.values() for task in gang.all_tasks())


def timed(do: Callable[[], T]) -> tuple[T, float]:
    """What it gives, and how many milliseconds it took."""
    gc.collect()
    gc.disable()
    began = time.perf_counter()
    try:
        return do(), (time.perf_counter() - began) * 1000
    finally:
        gc.enable()


def counted(do: Callable[[], object]) -> int:
    """How many calls of functions, ours and Python's own, it makes."""
    calls = 0

    def count(_: FrameType, event: str, __: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        do()
    finally:
        sys.setprofile(None)
    return calls


if __name__ == "__main__":
    main()

"""A whole-turn scenario: the scheduler's decisions, back to statuses and to the next turn."""

from __future__ import annotations

from typing import Any

import msgspec
from tests.conformance.reading import Record

from headrace.scheduling import gangs
from headrace.scheduling.actions import take_turn
from headrace.scheduling.banks import COMING, HELD, LEAVING
from headrace.scheduling.machines import Machine
from headrace.scheduling.world import World

ACTION_NAMES = {"consolidation": "consolidate", "stalegangeviction": "evict_stale"}
STATUSES = {
    gangs.PENDING: "Pending",
    gangs.RUNNING: "Running",
    gangs.BOUND: "Binding",
    gangs.PIPELINED: "Pipelined",
    gangs.EVICTED: "Releasing",
    gangs.RELEASING: "Releasing",
    gangs.STUCK: "StuckInReleasing",
    gangs.SUCCEEDED: "Succeeded",
    gangs.ENDED: "Failed",
}


class Outcome(msgspec.Struct, kw_only=True):
    """What can be seen after a turn: `(status, node)` of every task, and what was done."""

    tasks: dict[str, tuple[str, str | None]]
    nodes: dict[str, tuple[int, int]]  # idle and releasing whole GPUs
    binds: int = 0
    evictions: int = 0
    pipelines: int = 0


def records_of(case: dict[str, Any]) -> dict[str, Record]:
    """Every task's place before the first turn."""
    return {
        task["id"]: Record(state=task["state"], node=task["node"], groups=task["gpu_groups"])
        for job in case["input"]["jobs"]
        for task in job["tasks"]
    }


def run_turn(case: dict[str, Any], world: World, records: dict[str, Record]) -> Outcome:
    """Take one turn."""
    take_turn(world, [ACTION_NAMES.get(name, name) for name in case["actions"]])
    return outcome_of(world, records)


def outcome_of(world: World, records: dict[str, Record]) -> Outcome:
    """What can be seen of the world."""
    outcome = Outcome(tasks={}, nodes={})
    for gang in world.gangs.values():
        for task in gang.all_tasks():
            place = task.coming or task.place
            node = place.node if place else records[task.name].node
            outcome.tasks[task.name] = (STATUSES[task.state], node)
            outcome.binds += task.state == gangs.BOUND
            promised = task.state == gangs.PIPELINED and records[task.name].state != "Pipelined"
            outcome.pipelines += promised
            moved = task.state == gangs.PIPELINED and task.place is not None
            outcome.evictions += moved or task.state == gangs.EVICTED
    for name, machine in world.machines.items():
        outcome.nodes[name] = _books(machine)
    return outcome


def records_after(
    case: dict[str, Any], world: World, before: dict[str, Record]
) -> dict[str, Record]:
    """Where every task is before the next turn."""
    kept = {
        task["id"]
        for job in case["input"]["jobs"]
        if job.get("delete_in_test")
        for task in job["tasks"]
    }
    after = {}
    for gang in world.gangs.values():
        for task in gang.all_tasks():
            state, place = STATUSES[task.state], task.place
            gone = state == "Pipelined" or (state == "Releasing" and task.name not in kept)
            after[task.name] = Record(
                state="Pending" if gone else "Running" if state == "Binding" else state,
                node=None if gone else place.node if place else before[task.name].node,
                groups=before[task.name].groups,
                devices=None if gone or place is None else place.devices,
                milli=0 if place is None else place.milli,
            )
    return after


def _books(machine: Machine) -> tuple[int, int]:
    """Whole devices that nobody is on, and that only those are on who are leaving."""
    held, leaving, coming = (machine.milli[book] for book in (HELD, LEAVING, COMING))
    empty = [d for d in range(machine.spec.devices) if not held[d] and not coming[d]]
    fresh = sum(not leaving[d] for d in empty)
    return fresh, len(empty) - fresh - sum(bank.wholes_coming for bank in machine.banks)

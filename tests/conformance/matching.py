"""Whether a scenario comes out as expected, in one turn or over rounds of turns."""

from __future__ import annotations

import sys
import traceback
from typing import Any

from tests.conformance.reading import world_of
from tests.conformance.scenario import Outcome, outcome_of, records_after, records_of, run_turn

ERRORS_SHOWN = 4


def failures_of(case: dict[str, Any]) -> list[str]:
    """What differs from the expectation; a crash is a difference like any other."""
    try:
        run = _one_turn if case["mode"] == "actions" else _rounds
        return run(case)[:ERRORS_SHOWN]
    except Exception as error:
        where = traceback.extract_tb(sys.exc_info()[2])[-1]
        return [f"{type(error).__name__}: {error} at {where.name}:{where.lineno}"]


def _one_turn(case: dict[str, Any]) -> list[str]:
    records = records_of(case)
    outcome = run_turn(case, world_of(case, records), records)
    return _limits(case, outcome) + _differences(case, outcome)


def _rounds(case: dict[str, Any]) -> list[str]:
    """The result must come after so many rounds, and stay."""
    records = records_of(case)
    failures: list[str] = []
    for _ in range(case["rounds_until_match"]):
        world = world_of(case, records)
        failures += _limits(case, run_turn(case, world, records))
        records = records_after(case, world, records)
    failures += _differences(case, outcome_of(world_of(case, records), records))
    for _ in range(case["rounds_after_match"]):
        if failures:
            break
        world = world_of(case, records)
        outcome = run_turn(case, world, records)
        failures += _limits(case, outcome) + _differences(case, outcome)
        records = records_after(case, world, records)
    return failures


def _limits(case: dict[str, Any], outcome: Outcome) -> list[str]:
    limits = case["expected"]["call_limits"]
    done = {
        "max_binds": outcome.binds,
        "max_evictions": outcome.evictions,
        "max_pipelines": outcome.pipelines,
    }
    return [
        f"{what.removeprefix('max_')}: {number}, at most {limits[what]}"
        for what, number in done.items()
        if what in limits and number > limits[what]
    ]


def _differences(case: dict[str, Any], outcome: Outcome) -> list[str]:
    expected = case["expected"]
    failures = []
    wanted = dict(expected.get("tasks") or {})
    for job in case["input"]["jobs"]:
        if job["name"] in (expected.get("jobs") or {}):
            for task in job["tasks"]:
                wanted.setdefault(task["id"], expected["jobs"][job["name"]])
    for name, want in wanted.items():
        if name not in outcome.tasks or "status" not in want:
            continue
        status, node = outcome.tasks[name]
        if status != want["status"] or (want.get("node") and node != want["node"]):
            failures.append(f"{name} {status} {node}, not {want['status']} {want.get('node')}")
    for name, want in (expected.get("nodes") or {}).items():
        got = outcome.nodes[name]
        for number, key in zip(got, ("idle_gpus", "releasing_gpus"), strict=True):
            if key in want and number != want[key]:
                failures.append(f"{name} {key} {number}, not {want[key]}")
    return failures

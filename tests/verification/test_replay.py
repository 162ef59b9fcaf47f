"""The chain of bytes and every decision derived again, over logs and over a store."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
from pathlib import Path

import msgspec
import pytest
from tests.verification.histories import GOOD, accounted, entries, stored

from headrace.decider.version import deciding_files, decision_version
from headrace.events import Header
from headrace.events.platform import ServiceLed
from headrace.metrics.decide import DECIDER
from headrace.store.interface import NewEvent
from headrace.store.memory import MemoryLog, MemoryStore
from headrace.verification import Chain, Report, verify
from headrace.verification.verify import Verification

LED = ServiceLed(service="metrics", epoch=1, decision_version=decision_version())
DECIDERS = {"metrics": DECIDER}


def checked(*events) -> Verification:
    verification = Verification(DECIDERS)
    for event in stored(entries(events)):
        verification.take(event)
    return verification


def metrics_decides(**header) -> Header:
    values = {"causation": 10, "basis": 11, "decided_at_us": 11_500, "count": 1, **header}
    return Header(**values)


def test_a_decision_derived_again_is_the_one_recorded() -> None:
    done = checked(LED, *GOOD[:-1], (GOOD[-1], metrics_decides()))

    assert done.violations == []
    assert (done.replay.decisions, done.replay.reproduced) == (1, 1)


def test_other_events_may_come_between_a_basis_and_its_decision() -> None:
    late = ServiceLed(service="quota", epoch=1, decision_version="v")

    done = checked(LED, *GOOD[:-1], late, (GOOD[-1], metrics_decides()))

    assert done.violations == []


@pytest.mark.parametrize(
    ("event", "header", "says"),
    [
        (msgspec.structs.replace(accounted(), milli=999), metrics_decides(), "data"),
        (accounted(), metrics_decides(basis=9), "0 derived"),
        (accounted(), metrics_decides(causation=3), "causation 3 recorded, 10 derived"),
        (accounted(), metrics_decides(count=2), "2 decisions recorded, 1 derived"),
        (accounted(), metrics_decides(index=1, count=2), "is number 1"),
    ],
)
def test_a_decision_that_cannot_be_derived_again_is_told(event, header, says: str) -> None:
    done = checked(LED, *GOOD[:-1], (event, header))

    told = [str(violation) for violation in done.violations if violation.invariant == "I14"]
    assert any(says in text for text in told), told


def test_decisions_of_other_code_are_counted_and_not_judged() -> None:
    other = msgspec.structs.replace(LED, decision_version="older")
    wrong = msgspec.structs.replace(accounted(), milli=999)

    done = checked(other, *GOOD[:-1], (wrong, metrics_decides()))

    assert done.replay.decisions == 0
    assert done.replay.by_others["older"] == 1


def test_a_changed_byte_breaks_the_chain() -> None:
    log = stored(entries(GOOD))
    log[4] = msgspec.structs.replace(log[4], data=log[4].data.replace(b"g1", b"g2"))
    chain = Chain()

    told = [violation for event in log for violation in chain.check(event)]

    assert [(v.invariant, v.position) for v in told] == [("I8", 5)]
    assert (chain.gaps, chain.breaks) == (0, 1)


def test_a_missing_event_is_a_gap() -> None:
    log = stored(entries(GOOD))
    chain = Chain()

    told = [violation for event in log[:3] + log[4:] for violation in chain.check(event)]

    assert [v.position for v in told] == [5]
    assert chain.gaps == 1


async def test_a_store_is_verified_from_its_first_position_to_its_last() -> None:
    store = MemoryStore(MemoryLog(), lambda: 1_000)
    term = await store.lead("metrics", "one", 60.0)
    new = [
        NewEvent(stream=e.stream, type=e.type, project=e.project, header=e.header, data=e.data)
        for e in stored(entries([LED]))
    ]
    await store.append("metrics", term.epoch, 0, b"\0" * 32, new)
    seen: list[tuple[int, int]] = []

    report = await verify(store, DECIDERS, lambda *reached: seen.append(reached))

    assert report.passed
    assert seen == [(1, 1)]
    assert str(report).startswith("verified 1 .. 1: chain intact, 0 gaps, the log's invariants")


async def test_an_empty_log_is_in_order() -> None:
    assert (await verify(MemoryStore(MemoryLog(), lambda: 0), {})).passed


def test_a_report_reads_as_one_line_with_what_is_wrong_below() -> None:
    done = checked(LED, *GOOD[:-1], (GOOD[-1], metrics_decides()))

    report = msgspec.structs.replace(done.report(240), last=2117, decisions=96, reproduced=96)

    first, second, third = str(report).splitlines()
    assert first == (
        "verified 1 .. 2 117: chain intact, 0 gaps, the log's invariants hold, "
        "96 of 96 decisions reproduced byte for byte  (0.2 s)"
    )
    assert second == "  6 decisions were made by other code: unknown"
    assert third.endswith(f"note elsewhere, for later: --noted 2117:{done.chain.hash.hex()}")


def test_a_report_names_what_is_wrong() -> None:
    report = checked(GOOD[0], GOOD[0]).report()
    assert str(report).splitlines()[1:-1] == ["  I4 at position 2: a is requested again"]
    assert msgspec.json.decode(msgspec.json.encode(report), type=Report) == report


def test_the_version_covers_what_decides_and_nothing_else() -> None:
    files = deciding_files()

    assert "headrace.placement/decide.py" in files
    assert "scheduling/division.py" in files
    assert not [name for name in files if name.endswith(("__main__.py", "shell.py", "export.py"))]
    assert len(decision_version()) == 32


def test_the_version_covers_all_that_what_decides_imports() -> None:
    files = deciding_files()
    covered = set(files.values())

    missed = {
        (name, module)
        for name, path in files.items()
        for module in imported(path)
        if (place := file_of(module)) is not None and place not in covered
    }

    assert missed == set()


def imported(path: Path) -> set[str]:
    """The modules of Headrace that this one imports, and the names from them that may be modules."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return {name for name in found if name.startswith("headrace.")}


def file_of(module: str) -> Path | None:
    """None for a name that is no module, or is a service's package, which says what it is."""
    with contextlib.suppress(ModuleNotFoundError):
        spec = importlib.util.find_spec(module)
        if spec is not None and spec.origin is not None and not spec.submodule_search_locations:
            return Path(spec.origin)
    return None

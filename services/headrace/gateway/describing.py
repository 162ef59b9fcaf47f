"""One job in full, from its own stream of the log.

Rule: a pure function of the job's events; what the log keeps sealed stays so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from headrace.client.model import AttemptRow, Description, JobRow, WorkerRow
from headrace.events import Entry
from headrace.events.attempts import AttemptExited, AttemptExpired, AttemptStarted
from headrace.events.gangs import (
    GangEvicted,
    GangGrown,
    GangPlaced,
    GangReleased,
    GangShrunk,
    Worker,
)
from headrace.events.jobs import JobAdmitted, JobRequested, JobStarted
from headrace.events.nodes import Device
from headrace.events.pauses import GangPaused, GangPausing, GangResumed
from headrace.gateway.happenings import happening, trace_of
from headrace.gateway.seeing import STOPPING
from headrace.runtime.reader import entry_of
from headrace.store.interface import Stored

LOST = "lost"  # a worker whose end nobody saw, and so no exit code
_SPEC = (
    "gang", "priority", "preemptible", "protected_minimum", "max_duration_us", "replace_after_us",
    "secrets", "checkpoint", "template", "template_at",
)  # fmt: skip
_DECIDED = ("gang", "max_duration_us")  # of it, what admission filled in

DeviceOf = Callable[[str], Device | None]


def describe(
    row: JobRow,
    events: Sequence[Stored],
    *,
    tasks: Sequence[JobRow] = (),
    device: DeviceOf,
    as_of_us: int,
    requested: Stored | None = None,
    progress: Mapping[int, dict[str, str]] = {},
) -> Description:
    """`events` are those of the job's stream; what another project asked about the job, and was refused,
    is that project's. A task has `requested` from its group's stream.
    `device` knows the fleet's devices. `progress` is what workers of the last attempt said of
    themselves, by rank.
    """
    events = [event for event in events if event.project == row.project]
    entries = [entry_of(event) for event in events]
    attempts = _attempts(entries, device)
    for worker in attempts[-1].workers if attempts else ():
        worker.reported = worker.reported or progress.get(worker.rank, {})
    asked = entry_of(requested) if requested is not None else _first(entries)
    return Description(
        job=row,
        spec=_spec(asked, entries),
        attempts=attempts,
        timeline=[happening(event) for event in events],
        trace=trace_of(asked.header.traceparent) if asked else "",
        as_of_us=as_of_us,
        params=_params(asked, row),
        tasks=list(tasks),
    )


def _first(entries: Sequence[Entry]) -> Entry | None:
    return entries[0] if entries else None


def _spec(asked: Entry | None, entries: Sequence[Entry]) -> dict[str, Any]:
    spec: dict[str, Any] = {}
    for entry in ((asked,) if asked else ()) + tuple(entries):
        event = entry.event
        if isinstance(event, JobRequested | JobAdmitted):
            names = _DECIDED if spec else _SPEC
            spec |= {name: getattr(event, name) for name in names if hasattr(event, name)}
    return dict(msgspec.to_builtins(spec))


def _params(asked: Entry | None, row: JobRow) -> dict[str, str]:
    if asked is None or not isinstance(asked.event, JobRequested) or not row.group:
        return {}
    trials = asked.event.trials
    return trials[row.index] if row.index < len(trials) else {}


def _attempts(entries: Sequence[Entry], device: DeviceOf) -> list[AttemptRow]:
    attempts: dict[int, AttemptRow] = {}
    for entry in entries:
        event, at_us = entry.event, entry.recorded_at_us
        if isinstance(event, GangPlaced):
            attempts[event.attempt] = _placed(entry, event, device)
            continue
        attempt = attempts.get(getattr(event, "attempt", 0))
        if attempt is None:
            continue
        if isinstance(event, JobStarted):
            attempt.started_at_us = at_us
        elif isinstance(event, AttemptStarted | AttemptExited | AttemptExpired):
            _report(attempt, event)
        elif isinstance(event, GangEvicted) or (
            isinstance(event, GangPausing) and event.phase == "locked"
        ):
            attempt.evicted, attempt.evicted_at_us = event.reason, at_us
            attempt.gainer, attempt.eviction_rule = event.gainer, event.act.rule
            attempt.eviction_numbers = event.act.numbers
            attempt.eviction_names = event.act.names
        elif isinstance(event, GangPaused):
            attempt.paused = event.way
        elif isinstance(event, GangResumed):
            attempt.paused = ""
            _come_back(attempt, event, device)
        elif isinstance(event, GangGrown):
            attempt.workers += [_worker(worker, device) for worker in event.workers]
        elif isinstance(event, GangShrunk):
            _leave(attempt, event)
        elif isinstance(event, GangReleased):
            attempt.released_at_us, attempt.held_us = at_us, event.held_us
    return list(attempts.values())


def _placed(entry: Entry, event: GangPlaced, device: DeviceOf) -> AttemptRow:
    return AttemptRow(
        attempt=event.attempt,
        workers=[_worker(worker, device) for worker in event.workers],
        placed_at_us=entry.recorded_at_us,
        position=entry.position,
        rule=event.act.rule,
        numbers=event.act.numbers,
        names=event.act.names,
    )


def _come_back(attempt: AttemptRow, event: GangResumed, device: DeviceOf) -> None:
    """On these devices now, as what they were."""
    for row, worker in zip(attempt.workers, event.workers, strict=False):
        now = _worker(worker, device)
        row.gpus, row.devices, row.milli, row.model = now.gpus, now.devices, now.milli, now.model


def _worker(worker: Worker, device: DeviceOf) -> WorkerRow:
    known = [device(share.device) for share in worker.devices]
    return WorkerRow(
        rank=worker.rank,
        role=worker.role,
        node=worker.node,
        gpus=[each.index for each in known if each],
        devices=[share.device for share in worker.devices],
        milli=[share.milli for share in worker.devices],
        model=", ".join(dict.fromkeys(each.model for each in known if each)),
        simulated=any(each.kind == "simulated" for each in known if each),
    )


def _report(attempt: AttemptRow, event: AttemptStarted | AttemptExited | AttemptExpired) -> None:
    for worker in attempt.workers:
        if worker.rank != event.rank:
            continue
        if isinstance(event, AttemptStarted):
            worker.state, worker.enforcement = "running", event.enforcement
            worker.isolation = event.isolation
        elif isinstance(event, AttemptExpired):
            worker.state, worker.message = "lost", "its node was silent for longer than its lease"
        else:
            worker.state, worker.message = event.reason, event.message
            worker.exit_code = None if event.reason == LOST else event.exit_code
            worker.reported = event.reported


def _leave(attempt: AttemptRow, event: GangShrunk) -> None:
    for worker in attempt.workers:
        if worker.rank in event.ranks:
            gainer = f" for {event.gainer}" if event.gainer else ""
            worker.state, worker.message = STOPPING, f"{event.reason}{gainer}"

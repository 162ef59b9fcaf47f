"""Planted bugs: each breaks one promise, and the simulation must find each of them.

Rule: a mutation changes a host or an agent from outside, just before it runs; the product has no
switch for it, and nothing here is used when no bug is asked for.
"""

# ruff: noqa: SLF001  — a planted bug reaches inside what it breaks

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from importlib import import_module
from typing import Any

import msgspec

from headrace.events import Entry, decode, decode_header
from headrace.events.gangs import GangEvicted
from headrace.runtime.appending import Attempt
from headrace.runtime.host import Host

EFFECTS_S = 0.01  # for effects of decisions that are not in the log yet


def none(_what: Any) -> None:
    """No bug."""


def act_before_append(what: Any) -> None:
    """Placement's effects start from decisions that are not in the log yet, and may never be."""
    if not isinstance(what, Host) or what.service.decider.service != "placement":
        return
    append = what._append

    async def act_then_append(attempt: Attempt) -> list[Entry]:
        folder: Any = what._folder
        kept = folder.state
        folder.state = msgspec.json.decode(msgspec.json.encode(kept), type=type(kept))
        entries = _as_if_appended(what, attempt)
        for entry in entries:
            what.service.decider.evolve(folder.state, entry)
        what._effects.add(entries)
        await asyncio.sleep(EFFECTS_S)
        folder.state = kept
        return await append(attempt)

    what._append = act_then_append  # type: ignore[method-assign]


def no_epoch_check(what: Any) -> None:
    """Neither the log nor an agent asks whose term it is, or what came after."""
    if isinstance(what, Host):
        store: Any = what.store
        store._check_basis = lambda service, *_basis: store._log.services[service]
    else:
        what._journal.take = lambda _epoch, _position: None


def outlive_the_lease(what: Any) -> None:
    """No lease ever ends on a node, neither for its agent nor for what it started."""
    if not isinstance(what, Host):
        what._leasing._lease.covers = lambda _replace_after_s: True


def release_before_proof(what: Any) -> None:
    """Placement takes it for proof that it has asked a gang to stop."""
    if not isinstance(what, Host) or what.service.decider.service != "placement":
        return
    evolve = what.service.decider.evolve
    exited = import_module("headrace.placement.evolve").exited
    exit_of = import_module("headrace.placement.runs").Exit

    def believe(state: Any, entry: Entry) -> None:
        evolve(state, entry)
        job = state.jobs.get(getattr(entry.event, "job", ""))
        if isinstance(entry.event, GangEvicted) and job is not None and job.run is not None:
            for worker in job.run.workers:
                end = exit_of(reason="stopped", exit_code=143, at_us=entry.recorded_at_us)
                exited(state, entry.event.job, (worker.rank, end), entry.position)

    folder: Any = what._folder
    decider = dataclasses.replace(what.service.decider, evolve=believe)
    what.service = dataclasses.replace(what.service, decider=decider)
    folder._decider = decider


def ignore_reservations(what: Any) -> None:
    """Placement tells who waits when it starts, and then gives its room to whoever comes."""
    if not isinstance(what, Host) or what.service.decider.service != "placement":
        return
    horizon = import_module("headrace.scheduling.horizon").Horizon
    placement = what.service.decider

    def decide(state: Any, now_us: int) -> list[Any]:
        kept, horizon.allows = horizon.allows, lambda *_: True
        try:
            return list(placement.decide(state, now_us))
        finally:
            horizon.allows = kept

    decider = dataclasses.replace(placement, decide=decide)
    what.service = dataclasses.replace(what.service, decider=decider)


PLANTED: dict[str, Callable[[Any], None]] = {
    "act-before-append": act_before_append,
    "ignore-reservations": ignore_reservations,
    "no-epoch-check": no_epoch_check,
    "outlive-the-lease": outlive_the_lease,
    "release-before-proof": release_before_proof,
}


def _as_if_appended(host: Host, attempt: Attempt) -> list[Entry]:
    """The entries of this append, at the positions they would have if nothing came between."""
    tags = host.service.decider.tags()
    entries = []
    for position, event in enumerate(attempt.events, host.position + 1):
        if event.type in tags:
            entries.append(
                Entry(
                    position=position,
                    recorded_at_us=host.now_us(),
                    header=decode_header(event.header),
                    event=decode(event.type, event.data),
                )
            )
    return entries

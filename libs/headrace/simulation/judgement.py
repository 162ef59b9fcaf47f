"""The end of a history: were all promises kept?

Rule: safety is judged over the whole log and the machines' own journals; liveness only after
everything healed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

from headrace.events import decode
from headrace.simulation.situations import situations
from headrace.store.memory_log import ledger_of
from headrace.verification import Violation, check_accepted, check_journal
from headrace.verification.replay import Replay
from headrace.verification.verify import Verification

if TYPE_CHECKING:
    from headrace.simulation.world import World

NO_REASON = ("next", "stopping")  # rules that say a job should be running by now
TOLD_PER_CHECK_MAX = 5


async def judge(world: World) -> list[str]:
    """Everything that is wrong with this history."""
    wrong: list[str] = []
    wrong += _log(world)
    wrong += _machines(world)
    wrong += _liveness(world)
    wrong += _stream(world)
    return wrong


def _log(world: World) -> list[str]:
    ledger = ledger_of(world.log, 0)
    verification = Verification(world.deciders, world.version, ledger=ledger)
    for stored in world.log.events:
        verification.take(stored)
    verification.finish()
    world.fired.update(situations(decode(s.type, s.data) for s in world.log.events))
    found = [str(violation) for violation in _first(verification.violations)]
    requests = verification.checker.requests
    found += [str(violation) for violation in check_accepted(requests, world.people.accepted)]
    if not verification.replay.decisions:
        found.append("no decision could be derived again")
    return found + list(_overlooked(world, verification.replay))


def _overlooked(world: World, replay: Replay) -> Iterator[str]:
    """What a leader would decide now if it had only just read the log: it remembers what it has
    looked at, and that must not hide anything.
    """
    for name, decider in world.deciders.items():
        leader = world.leader_of(name)
        if leader is None or leader.host is None:
            continue
        now_us, due_us = leader.host.now_us(), decider.wakeup(leader.host.state)
        if due_us is None or due_us > now_us:
            for draft in decider.decide(replay.state_of(name), now_us):
                yield f"{name} has not decided {draft.event}"


def _first(violations: Iterable[Violation]) -> Iterator[Violation]:
    """The first few of each kind."""
    told: Counter[str] = Counter()
    for violation in violations:
        told[violation.invariant] += 1
        if told[violation.invariant] <= TOLD_PER_CHECK_MAX:
            yield violation


def _machines(world: World) -> list[str]:
    lines = [line for node in world.nodes.values() for line in node.machine.journal]
    found = [str(violation) for violation in check_journal(lines)[:TOLD_PER_CHECK_MAX]]
    for node in world.nodes.values():
        found += [f"{key} still runs on {node.name}" for key in node.machine.running()]
    return found


def _liveness(world: World) -> list[str]:
    found = [f"{key} was never answered" for key in world.people.unanswered]
    for name in world.instances:
        leader = world.leader_of(name)
        if leader is None or leader.host is None:
            found.append(f"nobody leads {name}")
        elif leader.host.position != len(world.log.events):
            found.append(f"{name} is at {leader.host.position} of {len(world.log.events)}")
    found += [f"{key} is still booked" for key, row in world.log.guards.items() if row.used]
    leader = world.leader_of("placement")
    if leader is not None and leader.host is not None:
        found += _waiting(leader.host)
    return found


def _waiting(host: Any) -> list[str]:
    """Jobs that have not ended and have no good reason to wait on an empty fleet."""
    explain = import_module("headrace.placement.explain_rules").explain
    state = host.state
    competing = {job.group for job in state.jobs.values() if job.eligible}
    found = []
    for job_id, job in state.jobs.items():
        why = explain(state, job_id, host.now_us())
        has_reason = why is not None and why.text and why.rule not in NO_REASON
        if not has_reason or ("another task" in why.text and job.group not in competing):
            found.append(f"{job_id} waits without a reason: {why}")
    found += [
        f"group {name} has not ended" for name, group in state.groups.items() if not group.live
    ]
    return found


def _stream(world: World) -> list[str]:
    """I10: the bus's copy of the log is at the log's head, position by position."""
    stream = world.broker.streams.get("LOG")
    last, head = (stream.state().last if stream is not None else 0), len(world.log.events)
    return [] if last == head else [f"I10: stream LOG ends at {last} and the log at {head}"]

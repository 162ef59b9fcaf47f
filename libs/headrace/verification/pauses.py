"""I16: gangs leave their devices all or none, on proof, and come back to the same nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from headrace.events import Entry
from headrace.events.pauses import (
    AttemptLocked,
    AttemptPaused,
    GangPaused,
    GangPausing,
    GangResumed,
    JobPaused,
    JobPausing,
    JobResuming,
)
from headrace.verification.life import NEVER, Grant, Life

Found = tuple[str, str]  # invariant, what


class Pauses:
    """What is known of live attempts that leave their devices; `life_of` knows the job's story."""

    def __init__(self, life_of: Callable[[str], Life]) -> None:
        self._life_of = life_of

    def wanted(self, _entry: Entry, event: JobPausing | JobResuming) -> Iterator[Found]:
        """Its people want it paused, or not any more."""
        life = self._life_of(event.job)
        life.pausing, life.paused = isinstance(event, JobPausing), False
        return iter(())

    def pausing(self, entry: Entry, event: GangPausing) -> Iterator[Found]:
        """Lock, or, once all are locked, leave."""
        grant = self._grant(event.job, event.attempt)
        if grant is None or grant.paused or grant.evicted != NEVER:
            yield "I16", f"{event.job} attempt {event.attempt} is to leave what it does not have"
            return
        if event.phase == "paused" and not _all(grant, grant.locked, entry.header.basis):
            yield "I16", f"{event.job} is to leave its devices before all of it is locked"
        grant.phase_at, grant.left, grant.locked = entry.position, {}, {}

    def locked(self, _entry: Entry, event: AttemptLocked) -> Iterator[Found]:
        """One worker is."""
        grant = self._grant(event.job, event.attempt)
        if grant is not None and event.asked_at == grant.phase_at:
            grant.locked[event.rank] = _entry.position
        return iter(())

    def left(self, _entry: Entry, event: AttemptPaused) -> Iterator[Found]:
        """One worker is off its devices."""
        grant = self._grant(event.job, event.attempt)
        if grant is not None and event.asked_at == grant.phase_at:
            grant.left[event.rank] = _entry.position
        return iter(())

    def paused(self, entry: Entry, event: GangPaused) -> Iterator[Found]:
        """The devices are free."""
        grant = self._grant(event.job, event.attempt)
        if grant is None or grant.paused:
            yield "I16", f"{event.job} attempt {event.attempt} leaves what it does not have"
            return
        if not _all(grant, grant.left, entry.header.basis):
            yield "I16", f"{event.job} gives its devices back before all of it has left them"
        grant.paused = True
        life = self._life_of(event.job)
        life.unpaid.append((event.attempt, event.milli, event.held_us))

    def resumed(self, entry: Entry, event: GangResumed) -> Iterator[Found]:
        """It has devices again."""
        life, grant = self._life_of(event.job), self._grant(event.job, event.attempt)
        if grant is None or not grant.paused:
            yield "I16", f"{event.job} attempt {event.attempt} comes back and was not away"
            return
        if {worker.rank: worker.node for worker in event.workers} != grant.nodes:
            yield "I16", f"{event.job} comes back to other nodes than where its processes are"
        if not life.was_eligible(entry.header.basis):
            yield "I4", f"{event.job} is resumed while it may not compete"
        if grant.evicted != NEVER:
            yield "I4", f"{event.job} is resumed although it is to end"
        grant.paused, grant.phase_at = False, entry.position

    def stands(self, entry: Entry, event: JobPaused) -> Iterator[Found]:
        """It competes no more."""
        life = self._life_of(event.job)
        life.stand(entry.position, eligible=False)
        life.paused = life.pausing
        if life.grant is not None and not life.grant.paused:
            yield "I16", f"{event.job} is paused and holds its devices"

    def _grant(self, job: str, attempt: int) -> Grant | None:
        grant = self._life_of(job).grant
        return grant if grant is not None and grant.attempt == attempt else None


def _all(grant: Grant, ranks: dict[int, int], basis: int) -> bool:
    return all(ranks.get(rank, NEVER) <= basis for rank in grant.nodes)

"""What may happen to gangs: placed, grown, shrunk, evicted and released, on what proof.

Rule: as `lives` has it: a decision is judged by what its own basis held.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.events import Entry
from headrace.events.gangs import (
    GangEvicted,
    GangGrown,
    GangPlaced,
    GangReleased,
    GangShrunk,
    Worker,
    WorkersReleased,
)
from headrace.verification.life import NEVER, Grant, Life

Found = tuple[str, str]  # invariant, what
SIGNAL, NOW = "signal", "now"  # of `gang.evicted`: its way, and the rule that overtakes it


class Grants:
    """The live attempt of every job, and who is where."""

    def __init__(self) -> None:
        self._jobs: dict[str, Life] = {}
        self._on_node: dict[str, dict[tuple[str, int], None]] = {}  # what is granted there
        self._short: dict[str, None] = {}  # jobs of which a worker has gone and others have not

    def firm_of(self, job: str, ranks: list[int]) -> list[int]:
        """Which of these workers cannot be preempted, as the job was admitted: the first of each
        role, as many as it has at least.
        """
        life = self.known(job)
        if not life.preemptible:
            return ranks
        roles = life.grant.roles if life.grant is not None else {}
        of_role: dict[str, list[int]] = {}
        for rank in ranks if life.protected else ():
            of_role.setdefault(roles.get(rank, ""), []).append(rank)
        parts = life.gang.by_role()
        return [
            rank
            for role, mine in of_role.items()
            for rank in mine[: parts[role].nodes if role in parts else 0]
        ]

    def placed(self, entry: Entry, event: GangPlaced) -> Iterator[Found]:
        life, job, basis = self.known(event.job), event.job, entry.header.basis
        yield from self._alive(entry, job, life)
        if life.grant is not None:
            yield "I2", f"{job} attempt {event.attempt} placed beside {life.grant.attempt}"
        if event.attempt != life.attempt + 1:
            yield "I3", f"{job} attempt {event.attempt} follows attempt {life.attempt}"
        if not life.was_eligible(basis):
            yield "I4", f"{job} is placed while it may not compete"
        if life.cancelling <= basis:
            yield "I4", f"{job} is placed although it is to end"
        if life.rests:
            yield "I4", f"{job} is placed while it rests"
        got, roles = len(event.workers), [worker.role for worker in event.workers]
        if not life.gang.has_minimum(roles) or got > life.nodes_max:
            yield "I7", f"{job} needs {life.gang.nodes}..{life.nodes_max} workers and got {got}"
        life.attempt = event.attempt
        life.grant = Grant(attempt=event.attempt, nodes={}, milli=event.milli)
        yield from self._joins(job, life.grant, event.workers)
        life.grant.first = life.grant.ranks

    def grown(self, entry: Entry, event: GangGrown) -> Iterator[Found]:
        life, grant = self.known(event.job), self._grant(event.job, event.attempt)
        if grant is None:
            yield "I3", f"{event.job} attempt {event.attempt} grows and is not placed"
            return
        basis = entry.header.basis
        if grant.evicted != NEVER or life.cancelling <= basis:
            yield "I4", f"{event.job} grows although it is to end"
        yield from self._joins(event.job, grant, event.workers)
        have = len(grant.nodes) - len(grant.leaving)
        if have > life.nodes_max:
            yield "I7", f"{event.job} may have {life.nodes_max} workers and has {have}"

    def shrunk(self, entry: Entry, event: GangShrunk) -> Iterator[Found]:
        life, grant = self.known(event.job), self._grant(event.job, event.attempt)
        if grant is None:
            yield "I3", f"{event.job} attempt {event.attempt} shrinks and is not placed"
            return
        if grant.evicted != NEVER or any(rank in grant.leaving for rank in event.ranks):
            yield "I4", f"{event.job} is to give up again what is stopped already"
        unknown = [rank for rank in event.ranks if not rank or rank not in grant.nodes]
        if unknown:
            yield "I3", f"{event.job} is to give up {unknown}"
        grant.leaving |= dict.fromkeys(event.ranks)
        gone = [rank for rank, at in grant.gone.items() if at <= entry.header.basis]
        left = grant.nodes.keys() - grant.leaving.keys() - set(gone)
        if event.gainer and not life.gang.has_minimum(grant.roles[rank] for rank in left):
            yield "I7", f"{event.job} is left {len(left)} workers and needs {life.gang.nodes}"

    def workers_released(self, entry: Entry, event: WorkersReleased) -> Iterator[Found]:
        life, grant = self.known(event.job), self._grant(event.job, event.attempt)
        if grant is None:
            yield "I3", f"{event.job} attempt {event.attempt} gives back and is not placed"
            return
        stopped = [rank for rank in event.ranks if grant.gone.get(rank, 0) > grant.evicted]
        grant.cut = grant.cut or not grant.done.keys() >= set(stopped)
        yield from self._leaves(entry, event.job, grant, event.ranks)
        life.unpaid.append((event.attempt, event.milli, event.held_us))

    def evicted(self, entry: Entry, event: GangEvicted) -> Iterator[Found]:
        grant = self._grant(event.job, event.attempt)
        if grant is None:
            yield "I3", f"{event.job} attempt {event.attempt} is evicted and not placed"
        elif grant.evicted == NEVER:
            grant.evicted, grant.is_asked = entry.position, event.way == SIGNAL
            self._short.pop(event.job, None)
        elif grant.is_asked and event.act.rule == NOW:
            grant.is_asked = False
        else:
            yield "I4", f"{event.job} attempt {event.attempt} is evicted again"

    def released(self, entry: Entry, event: GangReleased) -> Iterator[Found]:
        life, grant = self.known(event.job), self._grant(event.job, event.attempt)
        if grant is None:
            yield "I3", f"{event.job} attempt {event.attempt} is released and not placed"
            return
        is_done = bool(grant.nodes) and grant.nodes.keys() <= grant.done.keys() and not grant.cut
        if event.again and is_done:
            yield "I4", f"{event.job} is tried again although attempt {event.attempt} did its work"
        yield from self._leaves(entry, event.job, grant, tuple(grant.nodes))
        life.grant, life.rests = None, bool(event.rests_until_us)
        life.unpaid.append((event.attempt, event.milli, event.held_us))
        self._short.pop(event.job, None)

    def known(self, job: str) -> Life:
        """The job's record; an empty one when nobody asked for it, which the checks then tell."""
        return self._jobs.get(job) or Life(requested=NEVER)

    def _grant(self, job: str, attempt: int) -> Grant | None:
        grant = self.known(job).grant
        return grant if grant is not None and grant.attempt == attempt else None

    def _alive(self, entry: Entry, job: str, life: Life) -> Iterator[Found]:
        if life.admitted == NEVER:
            yield "I4", f"{job} was never admitted"
        if life.finished <= entry.header.basis:
            yield "I4", f"{job} ended at position {life.finished}"

    def _joins(self, job: str, grant: Grant, workers: tuple[Worker, ...]) -> Iterator[Found]:
        ranks = [worker.rank for worker in workers]
        if ranks != list(range(grant.ranks, grant.ranks + len(ranks))):
            yield "I3", f"{job} gives ranks {ranks} after {grant.ranks} others"
        for worker in workers:
            grant.nodes[worker.rank] = worker.node
            grant.roles[worker.rank] = worker.role
            self._on_node.setdefault(worker.node, {})[job, worker.rank] = None
        grant.ranks = max((grant.ranks, *(rank + 1 for rank in ranks)))

    def _leaves(
        self, entry: Entry, job: str, grant: Grant, ranks: tuple[int, ...]
    ) -> Iterator[Found]:
        alive = [rank for rank in ranks if grant.gone.get(rank, NEVER) > entry.header.basis]
        if alive:
            yield "I4", f"{job} is released before there is proof that {alive} ended"
        for rank in ranks:
            node = grant.nodes.pop(rank, "")
            self._on_node.get(node, {}).pop((job, rank), None)
            for known in (grant.started, grant.gone, grant.done, grant.leaving):
                known.pop(rank, None)

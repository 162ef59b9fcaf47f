"""I15: who waits is told when it starts at the latest, and starts by then.

Rule: whoever has a reservation is placed by the first decision of placement made at its moment or
later, on a log in which nothing excuses; answers to operators are decided alone, before anything
else, and are no such decision. What excuses, and nothing else:

- a holder overstays: it holds what it was given for longer than its maximum duration (starting and
  stopping take time), or is being stopped or ending, or part of it, on a node of the reservation or
  under a limit that both are under. One that was itself placed later than its own reservation, or
  than those were to be gone who were stopped for it, counts from that moment;
- another reservation there that was to be over by then has not begun, for a reason of this list;
- a limit above the job, of all or of a part (a quota too, if it cannot be preempted), was lowered:
  then it starts when those have ended who were under it;
- a node of the reservation, or hardware of it, was lost (see `losses`), or a pool was changed: what
  was promised is void. It may be withdrawn, or promised anew for later; nothing else may, except
  after a limit was lowered;
- it was to move there, and has not left where it was: until then that may be withdrawn, too.

A gang that has waited for `reserve_after_s` is told in the next decision, if it can ever run: what
proves that is its placement, later, on nodes and under queues that have not changed in between. It
need not be told while `reservations_max` others are, or one alike of its project (or that is placed
in that very decision), or while there are more holders than a turn looks at (`reserve_steps_max`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

from headrace.events import Entry
from headrace.events.attempts import AttemptExited
from headrace.events.gangs import (
    GangEvicted,
    GangGrown,
    GangPlaced,
    GangReleased,
    GangReserved,
    GangShrunk,
    WorkersReleased,
)
from headrace.events.jobs import JobAdmitted, JobCancelling, JobEligible, JobFinished, JobHeld
from headrace.events.platform import ServiceLed
from headrace.events.pools import PoolConfigured, PoolDeleted
from headrace.events.queues import QueueConfigured, QueueDeleted
from headrace.verification.bounds import Tree, is_lowered
from headrace.verification.life import NEVER
from headrace.verification.losses import ANSWERS, NODE_EVENTS, NodeEvent, Nodes
from headrace.verification.turn_settings import SETTINGS_EVENTS, SettingsEvent, TurnSettings
from headrace.verification.waits import Holding, Promise, Wait

SECOND_US = 1_000_000
MAX_DURATION_US = 86_400 * SECOND_US  # of a job that was admitted without any
STEPS_PER_END = 3  # a search enters an end so often at most

Found = tuple[str, str]  # invariant, what
Check = Callable[[Entry, Any], Iterable[Found]]


class Promises:
    """Who waits, who holds what until when, and what was promised."""

    def __init__(self) -> None:
        self._settings = TurnSettings()
        self._waits: dict[str, Wait] = {}
        self._promised: dict[str, Promise] = {}
        self._holdings: dict[str, Holding] = {}
        self._tree, self._nodes = Tree(), Nodes()
        self._changed: dict[str, int] = {}  # nodes, queues: when last
        self._rules_changed = self._released_at = 0
        self._full, self._alike = False, set[Hashable]()
        self._on: dict[type[Any], Check] = {
            JobAdmitted: self._admitted,
            JobEligible: self._eligible,
            JobHeld: self._over,
            JobCancelling: self._over,
            JobFinished: self._over,
            GangPlaced: self._placed,
            GangGrown: self._resized,
            GangShrunk: self._evicted,
            GangEvicted: self._evicted,
            WorkersReleased: self._resized,
            AttemptExited: self._exited,
            GangReleased: self._released,
            GangReserved: self._reserved,
            **dict.fromkeys(NODE_EVENTS, self._node),
            QueueConfigured: self._configured,
            PoolConfigured: self._repooled,
            QueueDeleted: self._deleted,
            PoolDeleted: self._repooled,
            **dict.fromkeys(SETTINGS_EVENTS, self._resettled),
        }

    def check(self, entry: Entry) -> Iterator[Found]:
        """Fold the next entry; what it breaks."""
        header = entry.header
        kind = type(entry.event)
        is_turn = bool(header.count) and kind.owner == "placement" and kind not in ANSWERS
        if is_turn and header.index == 0:
            self._full, self._alike = self._is_full(), self._kinds_told()
        handle = self._on.get(kind)
        if handle is not None:
            yield from handle(entry, entry.event)
        if is_turn and header.index == header.count - 1:
            if header.basis >= self._released_at:
                yield from self._late(entry)
            self._notice_untold(entry)

    def _late(self, entry: Entry) -> Iterator[Found]:
        """Who should have been placed in what was decided at once."""
        now_us, basis = entry.header.decided_at_us, entry.header.basis
        for job, promise in self._promised.items():
            is_judged = promise.due_us <= now_us and promise.basis < basis and not promise.void
            if is_judged and job not in self._holdings and not self._is_excused(job, now_us):
                promise.void = True  # told once
                yield "I15", f"{job} was to start at {promise.at_us} and waits at {now_us}"

    def _notice_untold(self, entry: Entry) -> None:
        """Remember who should have been told in what was decided at once."""
        now_us, basis = entry.header.decided_at_us, entry.header.basis
        after_us = self._settings["reserve_after_s"] * SECOND_US
        alike = self._alike | self._kinds_told()
        if self._full or len(alike) >= self._settings["reservations_max"]:
            return  # who is placed in a turn may have been told at its beginning
        for job, wait in self._waits.items():
            has_waited = wait.since <= basis and now_us - wait.admitted_us >= after_us
            is_told = job in self._promised or now_us <= wait.room_us < NEVER or wait.kind in alike
            if has_waited and not wait.untold and not is_told:
                wait.untold = basis

    def _kinds_told(self) -> set[Hashable]:
        return {self._waits[job].kind for job in self._promised}

    def _is_excused(self, job: str, now_us: int) -> bool:
        """Whether somebody else is the reason that the job still waits."""
        for other, holding in self._holdings.items():
            overstays = holding.end_us <= now_us or holding.leaving != NEVER
            if overstays and self._meet(job, self._waits[other].project, holding.nodes):
                return True
        for other, theirs in self._promised.items():
            wait = self._waits[other]
            was_to_end = other != job and theirs.at_us + wait.max_us <= now_us
            if was_to_end and self._meet(job, wait.project, theirs.nodes):
                return True
        return False

    def _meet(self, job: str, project: str, nodes: frozenset[str]) -> bool:
        """Whether whoever is on these nodes, of that project, may be in the job's way."""
        if nodes & self._promised[job].nodes:
            return True
        wait = self._waits[job]
        return self._tree.is_limited(wait.project, project, firm=wait.firm)

    def _is_full(self) -> bool:
        """Whether nobody more can be told: a search has at most half of the steps that are left."""
        told, limits = len(self._promised), self._settings
        kinds = {wait.kind for wait in self._waits.values() if wait.since != NEVER}
        steps = STEPS_PER_END * (len(self._holdings) + 2 * told) * (len(kinds) + told + 2)
        return told >= limits["reservations_max"] or steps > limits["reserve_steps_max"]

    def _resettled(self, entry: Entry, event: SettingsEvent) -> Iterable[Found]:
        self._settings.look(event)
        if not isinstance(event, ServiceLed):
            self._rules_changed = entry.position
        return ()

    def _admitted(self, entry: Entry, event: JobAdmitted) -> Iterable[Found]:
        if not event.tasks:
            self._waits[event.job] = Wait(
                admitted_us=entry.recorded_at_us, project=event.project,
                kind=(event.project, event.priority, event.preemptible, event.max_duration_us,
                      event.gang),
                firm=event.protected_minimum or not event.preemptible,
                max_us=event.max_duration_us or MAX_DURATION_US,
            )  # fmt: skip
        return ()

    def _eligible(self, entry: Entry, event: JobEligible) -> Iterable[Found]:
        wait = self._waits.get(event.job)
        if wait is not None and event.job not in self._holdings:
            wait.wait(entry.position)
        return ()

    def _over(self, entry: Entry, event: Any) -> Iterable[Found]:
        self._rest(entry, event.job)
        if isinstance(event, JobFinished):
            self._waits.pop(event.job, None)
        return ()

    def _placed(self, entry: Entry, event: GangPlaced) -> Iterable[Found]:
        wait = self._waits.get(event.job)
        if wait is None:
            return
        nodes = frozenset(worker.node for worker in event.workers)
        if wait.untold and self._unchanged_since(wait.untold, wait.project, nodes):
            yield "I15", f"{event.job} was not told since {wait.untold} when it starts"
        self._alike.add(wait.kind)
        from_us = min(entry.header.decided_at_us, wait.room_us)
        if event.job in self._promised:
            from_us = min(from_us, self._promised[event.job].at_us)
        self._holdings[event.job] = Holding(event.attempt, nodes, from_us + wait.max_us)
        self._rest(entry, event.job)

    def _resized(self, entry: Entry, event: GangGrown | WorkersReleased) -> Iterable[Found]:
        """An elastic gang is on more nodes, or what was leaving of it has left."""
        grown = event.workers if isinstance(event, GangGrown) else ()
        self._released_at = self._released_at if grown else entry.position
        holding = self._holdings.get(event.job)
        if holding is not None:
            holding.nodes |= {worker.node for worker in grown}
            holding.leaving = holding.leaving if grown else NEVER
        return ()

    def _evicted(self, entry: Entry, event: GangEvicted | GangShrunk) -> Iterable[Found]:
        holding, gainer = self._holdings.get(event.job), self._waits.get(event.gainer)
        if holding is not None:
            holding.leaving = entry.position
        if gainer is not None:
            gainer.expect(entry, self._settings["release_s"])
        return ()

    def _exited(self, entry: Entry, event: AttemptExited) -> Iterable[Found]:
        """A worker has gone, and the others will."""
        holding = self._holdings.get(event.job)
        if holding is not None and holding.attempt == event.attempt:
            holding.leaving = min(holding.leaving, entry.position)
        if event.reason == "disk-full":
            self._node_changed(entry, event.node, is_lost=True)
        return ()

    def _released(self, entry: Entry, event: GangReleased) -> Iterable[Found]:
        self._holdings.pop(event.job, None)
        self._released_at = entry.position
        wait = self._waits.get(event.job)
        if wait is not None and event.again:
            wait.wait(entry.position)
        return ()

    def _reserved(self, entry: Entry, event: GangReserved) -> Iterable[Found]:
        wait, before = self._waits.get(event.job), self._promised.get(event.job)
        basis, holding = entry.header.basis, self._holdings.get(event.job)
        moves = holding is not None and holding.leaving != NEVER
        may_change = moves or before is None or before.void or before.due_us > before.at_us
        if wait is None or (wait.since == NEVER and wait.rested <= basis and not moves):
            yield "I15", f"{event.job} is promised seats and does not wait"
        elif wait.since == NEVER and not moves:
            pass  # it ceased to wait when this was decided already
        elif not event.seats:
            self._promised.pop(event.job, None)
            if not may_change:
                yield "I15", f"{event.job} is promised nothing any more, and nothing was lost"
        else:
            nodes = frozenset(seat.node for seat in event.seats)
            promise = self._promised[event.job] = Promise(event.at_us, basis, nodes)
            promise.void = not self._unchanged_since(basis, wait.project, nodes)
            wait.untold = 0
            if before is not None and event.at_us > before.at_us and not may_change:
                yield "I15", f"{event.job} was promised {before.at_us} and then {event.at_us}"

    def _node(self, entry: Entry, event: NodeEvent) -> Iterable[Found]:
        """Something is said of a node; if it is lost, what was promised there is void."""
        for node, is_lost in self._nodes.look(event):
            self._node_changed(entry, node, is_lost=is_lost)
        return ()

    def _node_changed(self, entry: Entry, node: str, *, is_lost: bool) -> None:
        self._changed[node] = entry.position
        for promise in self._promised.values():
            promise.void |= is_lost and node in promise.nodes

    def _configured(self, entry: Entry, event: QueueConfigured) -> Iterable[Found]:
        before = self._tree.queues.get(event.name)
        self._tree.queues[event.name] = event.queue
        if event.change == "unchanged":
            return ()
        self._changed[f"queue {event.name}"] = entry.position
        under = [j for j, w in self._waits.items() if self._tree.is_under(w.project, event.name)]
        ends = [self._holdings[job].end_us for job in under if job in self._holdings]
        told = [job for job in under if job in self._promised]
        ends += (self._promised[job].at_us + self._waits[job].max_us for job in told)
        for job, promise in ((job, self._promised[job]) for job in told):
            if before is None or is_lowered(before, event.queue, firm=self._waits[job].firm):
                promise.due_us = max(promise.due_us, *ends)
        return ()

    def _deleted(self, entry: Entry, event: QueueDeleted) -> Iterable[Found]:
        self._tree.queues.pop(event.name, None)
        self._changed[f"queue {event.name}"] = entry.position
        return ()

    def _repooled(self, entry: Entry, event: PoolConfigured | PoolDeleted) -> Iterable[Found]:
        if isinstance(event, PoolDeleted) or event.change != "unchanged":
            self._rules_changed = entry.position
            for promise in self._promised.values():
                promise.void = True
        return ()

    def _rest(self, entry: Entry, job: str) -> None:
        """It does not wait any more."""
        self._promised.pop(job, None)
        if job in self._waits:
            self._waits[job].rest(entry.position)

    def _unchanged_since(self, position: int, project: str, nodes: frozenset[str]) -> bool:
        names = (*nodes, *(f"queue {queue.queue}" for queue in self._tree.path(project)))
        return max(self._rules_changed, *(self._changed.get(n, 0) for n in names)) <= position

"""What the node's lease means for its attempts: who may start, who must end, how often to renew.

Rule: what a lease that has ended did cover is ended before the lease is renewed, so that a renewal
never brings back what may run elsewhere by now; and an attempt whose lease has to be renewed first
is started only by the document that renews it, for an earlier one may be out of date.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from headrace.bus.agents import Assignment
from headrace.node_agent.lease import RENEW_S, Lease
from headrace.node_agent.machine import AttemptKey, Machine

GRACE_S = 10  # to end well, for an attempt that no document names


class Leasing:
    """One node's lease and what depends on it."""

    def __init__(self, lease: Lease, machine: Machine) -> None:
        self._lease, self._machine = lease, machine
        self._desired: Mapping[AttemptKey, Assignment] = {}
        self._waiting: set[AttemptKey] = set()  # for a lease, to be started

    def follow(self, desired: Mapping[AttemptKey, Assignment]) -> list[AttemptKey]:
        """Take what is wanted now; what of it may have waited for the lease."""
        self._desired = desired
        self._waiting.intersection_update(desired)
        return [key for key, wanted in desired.items() if wanted.replace_after_s]

    def may_start(self, assignment: Assignment) -> bool:
        """Whether the lease covers it."""
        return self._lease.covers(assignment.replace_after_s)

    def want(self, key: AttemptKey, pull_due: asyncio.Event) -> None:
        """It cannot start without a lease: ask for one at once, once."""
        if key not in self._waiting:
            self._waiting.add(key)
            pull_due.set()

    def renew(self, from_ns: int) -> None:
        """Placement has heard what was sent then; 0: it renews nothing."""
        if from_ns:
            self.end_uncovered()
            self._lease.renew(from_ns)

    def end_uncovered(self) -> None:
        """End what the lease does not cover any more."""
        for key in self._machine.held():
            seen = self._machine.look(key)
            if seen is None or seen.end is not None or seen.stopping:
                continue
            if not self._lease.covers(seen.replace_after_s):
                assignment = self._desired.get(key)
                grace_s = assignment.grace_s if assignment is not None else GRACE_S
                by = assignment.checkpoint_signal if assignment is not None else ""
                self._machine.stop(key, "disconnected", grace_s, by)

    def pull_every_s(self, otherwise_s: float) -> float:
        """How often to pull: a lease that is needed is renewed more often than documents change."""
        held = (self._machine.look(key) for key in self._machine.held())
        is_needed = any(wanted.replace_after_s for wanted in self._desired.values()) or any(
            seen is not None and seen.end is None and seen.replace_after_s for seen in held
        )
        return RENEW_S if is_needed else otherwise_s

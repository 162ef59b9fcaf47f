"""Jobs of one kind are offered the same: found out once for all of them.

Rule: kept beside the state like all that is derived, and looked at again when pools or volumes
change or more is measured; who is offered the same as before need not hear of it. Only families of
which something was measured are of kinds of their own.
"""

from __future__ import annotations

from collections.abc import Container

from headrace.events.asked import Gang as Asked
from headrace.placement.offers import Offer, offer_of
from headrace.placement.option_rules import family_of
from headrace.placement.state import Job, State

Kind = tuple[str, Asked]  # the family ("": of none that was measured), and what is asked for


class Kin:
    """The live jobs of each kind, and what these are offered. `measured` are the families of which
    something was, as the state has them.
    """

    def __init__(self, measured: Container[str]) -> None:
        self._measured = measured
        self._members: dict[Kind, dict[str, None]] = {}
        self._known: dict[Kind, Kind] = {}  # each kind once, however many are of it
        self._kinds: dict[str, Kind] = {}  # by job
        self._asked: dict[str, Asked] = {}  # by job, as it was seen last: mostly the very same
        self._family: dict[str, str] = {}  # by job
        self._families: dict[str, dict[str, None]] = {}  # their jobs
        self._offers: dict[Kind, Offer] = {}
        self._stale: dict[Kind, None] | None = {}  # whose offers may be others (None: everybody's)
        self._moved: dict[str, None] = {}  # jobs that are of another kind by now

    def enter(self, job_id: str, job: Job) -> None:
        """A job is there, and may ask for something else than before."""
        if self._asked.get(job_id) is job.gang:
            return
        known = self._kinds.get(job_id)
        self._asked[job_id] = job.gang
        if known is not None and known[1] == job.gang:
            return
        self._forget(job_id)
        family = self._family[job_id] = family_of(job.project, job_id)
        self._families.setdefault(family, {})[job_id] = None
        self._join(job_id, (self._named(family), job.gang))

    def leave(self, job_id: str) -> None:
        """It is there no more."""
        self._asked.pop(job_id, None)
        self._forget(job_id)

    def _forget(self, job_id: str) -> None:
        kind = self._kinds.pop(job_id, None)
        if kind is None:
            return
        self._quit(job_id, kind)
        family = self._family.pop(job_id)
        del self._families[family][job_id]
        if not self._families[family]:
            del self._families[family]
        self._moved.pop(job_id, None)

    def measured(self, family: str) -> None:
        """More is known of how fast the jobs of this family run, or it was forgotten."""
        named = self._named(family)
        for job_id in self._families.get(family, ()):
            kind = self._kinds[job_id]
            if kind[0] == named:
                if self._stale is not None:
                    self._stale[kind] = None
            else:
                self._join(job_id, (named, kind[1]))
                self._moved[job_id] = None

    def repooled(self) -> None:
        """A pool or a volume is new or has changed."""
        self._stale = None

    def moved(self, state: State) -> dict[str, None]:
        """Who may be offered something else than when this was asked last."""
        stale, self._stale = self._members if self._stale is None else self._stale, {}
        found, self._moved = self._moved, {}
        for kind in stale:
            before = self._offers.get(kind)
            if before is not None and before != self._offer(state, kind):
                found |= self._members[kind]
        return found

    def offer(self, state: State, job_id: str) -> Offer:
        """What the job is offered."""
        kind = self._kinds[job_id]
        return self._offers.get(kind) or self._offer(state, kind)

    def _named(self, family: str) -> str:
        return family if family in self._measured else ""

    def _join(self, job_id: str, kind: Kind) -> None:
        """Be of this kind, and of no other."""
        before = self._kinds.get(job_id)
        if before is not None:
            self._quit(job_id, before)
        kind = self._kinds[job_id] = self._known.setdefault(kind, kind)
        self._members.setdefault(kind, {})[job_id] = None

    def _quit(self, job_id: str, kind: Kind) -> None:
        members = self._members[kind]
        del members[job_id]
        if not members:
            del self._members[kind], self._known[kind]
            self._offers.pop(kind, None)
            if self._stale is not None:
                self._stale.pop(kind, None)

    def _offer(self, state: State, kind: Kind) -> Offer:
        found = self._offers[kind] = offer_of(state, *kind)
        return found

"""Jobs of one family that ask for the same are offered the same: found out once for all of them.

Rule: kept beside the state like all that is derived, and looked at again when pools or volumes
change or more is measured; who is offered the same as before need not hear of it.
"""

from __future__ import annotations

from headrace.events.asked import Gang as Asked
from headrace.placement.offers import Offer, offer_of
from headrace.placement.option_rules import family_of
from headrace.placement.state import Job, State

Kind = tuple[str, Asked]  # the family, and what is asked for


class Kin:
    """The live jobs of each kind, and what these are offered. `stale`: whose offers may be others
    by now (None: everybody's).
    """

    def __init__(self) -> None:
        self._members: dict[Kind, dict[str, None]] = {}
        self._known: dict[Kind, Kind] = {}  # each kind once, however many are of it
        self._kinds: dict[str, Kind] = {}  # by job
        self._offers: dict[Kind, Offer] = {}
        self._families: dict[str, dict[Asked, None]] = {}
        self._stale: dict[str, None] | None = {}

    def enter(self, job_id: str, job: Job) -> None:
        """A job is there, and may ask for something else than before."""
        known = self._kinds.get(job_id)
        if known is not None and known[1] == job.gang:
            return
        self.leave(job_id)
        family = family_of(job.project, job_id)
        kind = (family, job.gang)
        kind = self._kinds[job_id] = self._known.setdefault(kind, kind)
        self._members.setdefault(kind, {})[job_id] = None
        self._families.setdefault(family, {})[job.gang] = None

    def leave(self, job_id: str) -> None:
        """It is there no more."""
        kind = self._kinds.pop(job_id, None)
        if kind is None:
            return
        members = self._members[kind]
        del members[job_id]
        if not members:
            del self._members[kind], self._known[kind]
            self._offers.pop(kind, None)
            asked = self._families[kind[0]]
            del asked[kind[1]]
            if not asked:
                del self._families[kind[0]]

    def measured(self, family: str) -> None:
        """More is known of how fast the jobs of this family run."""
        if self._stale is not None:
            self._stale[family] = None

    def repooled(self) -> None:
        """A pool or a volume is new or has changed."""
        self._stale = None

    def moved(self, state: State) -> dict[str, None]:
        """Who is offered something else than when this was asked last."""
        stale, self._stale = self._families if self._stale is None else self._stale, {}
        found: dict[str, None] = {}
        for family in stale:
            for asked in self._families.get(family, ()):
                before = self._offers.get((family, asked))
                if before is not None and before != self._offer(state, (family, asked)):
                    found |= self._members[family, asked]
        return found

    def offer(self, state: State, job_id: str) -> Offer:
        """What the job is offered."""
        kind = self._kinds[job_id]
        return self._offers.get(kind) or self._offer(state, kind)

    def _offer(self, state: State, kind: Kind) -> Offer:
        found = self._offers[kind] = offer_of(state, *kind)
        return found

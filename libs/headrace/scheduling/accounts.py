"""The queue tree in a turn: what every queue holds and may have, and what forbids it more.

Rule: a limit is never exceeded at any level; work that cannot be preempted stays within quota at
every level; both in total and of each part of the fleet. What a queue holds, everything above it
holds too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import lt

import msgspec

from headrace.scheduling.amounts import GPU, NOTHING, RESOURCES, UNLIMITED, Amounts
from headrace.scheduling.division import QueueSpec
from headrace.scheduling.gangs import Place
from headrace.scheduling.legality import PartStanding, Standing
from headrace.scheduling.parts import NO_RATION, Cell, Part, PartRation, Parts

DOMINANT_ONE = 1 << 40  # a queue that holds exactly what it may have
NO_SHARE_FACTOR = 1000  # how much worse it is to hold something without any share


class Barrier(msgspec.Struct, frozen=True, kw_only=True):
    """Why a queue may not have more: `rule` (limit or quota) of `queue` for one resource, or for
    GPUs of one part of the fleet.
    """

    queue: str
    rule: str
    resource: int
    allowed: int
    would_hold: int
    part: Part | None = None


class Stake:
    """What a queue has of one part of the fleet: changes as tasks are placed and evicted."""

    __slots__ = ("firm", "held", "ration", "share")

    def __init__(self, ration: PartRation) -> None:
        self.ration = ration
        self.held = self.firm = self.share = 0

    @property
    def standing(self) -> PartStanding:
        """As the rules of reclaim see it."""
        return PartStanding(quota=self.ration.quota, share=self.share, held=self.held)


class Account:
    """One queue in a turn. `held` and `firm` change as tasks are placed and evicted."""

    __slots__ = (
        "_may",
        "allocatable",
        "children",
        "firm",
        "held",
        "path",
        "share",
        "spec",
        "stakes",
        "total",
        "version",
    )

    def __init__(self, spec: QueueSpec, parts: Parts) -> None:
        self.spec = spec
        self.held = [0, 0, 0]
        self.firm = [0, 0, 0]
        self.stakes = [Stake(spec.parts.get(part, NO_RATION)) for part in parts.all]
        self.version = 0  # rises with every change
        self.path: list[Account] = []  # itself first, the root last
        self.children: list[Account] = []
        self.redivide(NOTHING, NOTHING)

    def redivide(self, share: Amounts, total: Amounts) -> None:
        """It has another fair share from now on."""
        self.share, self.total = share, total
        spec = self.spec
        self.allocatable = Standing(quota=spec.quota, limit=spec.limit, share=share).allocatable
        self._may = [
            all_of_it if most == UNLIMITED else most
            for most, all_of_it in zip(self.allocatable, total, strict=True)
        ]
        self.version += 1

    def is_over_share(self) -> bool:
        """Whether it holds more than its fair share of every resource."""
        return all(map(lt, self.share, self.held))

    def is_starved(self, request: Amounts) -> bool:
        """Whether it stays within its quota with that much more."""
        for now, more, quota in zip(self.held, request, self.spec.quota, strict=True):
            if quota != UNLIMITED and now + more > quota:
                return False
        return True

    def is_guaranteed(self, part: int, milli: int) -> bool:
        """Whether it has a quota of this part and stays within it with so much more."""
        stake = self.stakes[part]
        quota = stake.ration.quota
        return quota == UNLIMITED or 0 < stake.held + milli <= quota

    def holds_without_share(self, request: Amounts) -> bool:
        """Whether, with that much more, it holds something of which it may have nothing."""
        if 0 not in self.allocatable:
            return False
        return any(self.allocatable[r] == 0 and self.held[r] + request[r] > 0 for r in RESOURCES)

    def dominant(self, change: Amounts) -> int:
        """The largest part of what it may have that it holds of any resource, after a change."""
        largest = 0
        for now, more, may in zip(self.held, change, self._may, strict=True):
            part = (now + more) * DOMINANT_ONE
            part = part // may if may > 0 else part * NO_SHARE_FACTOR
            largest = max(largest, part)
        return largest

    def barrier(self, request: Amounts, *, firm: bool) -> Barrier | None:
        """What forbids that much more here."""
        limit = self.spec.limit
        for r in RESOURCES:
            would = self.held[r] + request[r]
            if request[r] > 0 and limit[r] != UNLIMITED and would > limit[r]:
                return Barrier(
                    queue=self.spec.queue, rule="limit", resource=r, allowed=limit[r],
                    would_hold=would,
                )  # fmt: skip
        return self.quota_barrier(request) if firm else None

    def quota_barrier(self, request: Amounts) -> Barrier | None:
        """What forbids that much more for work that cannot be preempted."""
        quota = self.spec.firm_limit
        for r in RESOURCES:
            would = self.firm[r] + request[r]
            if request[r] > 0 and quota[r] != UNLIMITED and would > quota[r]:
                return Barrier(
                    queue=self.spec.queue, rule="quota", resource=r, allowed=quota[r],
                    would_hold=would,
                )  # fmt: skip
        return None

    def part_barrier(self, part: tuple[int, Part], milli: int, firm_milli: int) -> Barrier | None:
        """What forbids so much more of a part (its number and itself), so much of it firm."""
        stake = self.stakes[part[0]]
        ration = stake.ration
        rules = (
            ("limit", milli, ration.limit, stake.held),
            ("quota", firm_milli, ration.firm_limit, stake.firm),
        )
        for rule, more, allowed, held in rules:
            if more > 0 and allowed != UNLIMITED and held + more > allowed:
                return Barrier(
                    queue=self.spec.queue, rule=rule, resource=GPU, allowed=allowed,
                    would_hold=held + more, part=part[1],
                )  # fmt: skip
        return None


class Accounts:
    """Every queue whose path ends at a root. `budgeted` are those that bound evictions; `cell_at`
    says of which parts a place's GPUs are; `paths` name each queue and all above it; `divisions`
    rises when a queue gets another fair share.
    """

    def __init__(
        self, specs: Mapping[str, QueueSpec], cell_at: Callable[[Place], Cell] = lambda _: ()
    ) -> None:
        self._cell_at = cell_at
        self.divisions = 0
        self.parts = Parts(part for spec in specs.values() for part in spec.parts)
        self.by_name = {name: Account(spec, self.parts) for name, spec in specs.items()}
        self.budgeted = [spec for spec in specs.values() if spec.evictions_max > 0]
        self.roots: list[Account] = []
        self._standings: tuple[int, dict[str, Standing]] | None = None
        for name, account in self.by_name.items():
            account.path = self._path(name)
            if not account.spec.parent:
                self.roots.append(account)
            elif account.spec.parent in self.by_name:
                self.by_name[account.spec.parent].children.append(account)
        by_name = self.by_name.items()
        self.paths = {name: [each.spec.queue for each in account.path] for name, account in by_name}

    def __contains__(self, queue: str) -> bool:
        """Whether work of this queue can be placed: it exists and its path ends at a root."""
        account = self.by_name.get(queue)
        return account is not None and not account.path[-1].spec.parent

    def redivide(self, shares: Mapping[str, Amounts], total: Amounts) -> None:
        """Give every queue its fair share of the total."""
        accounts = self.by_name.items()
        if any((each.share, each.total) != (shares[name], total) for name, each in accounts):
            self.divisions += 1
        for name, account in accounts:
            account.redivide(shares[name], total)

    def redivide_part(self, number: int, shares: Mapping[str, int]) -> None:
        """Give every queue its fair share of one part of the fleet."""
        accounts = self.by_name.items()
        if any(each.stakes[number].share != shares[name] for name, each in accounts):
            self.divisions += 1
        for name, account in accounts:
            account.stakes[number].share = shares[name]
            account.version += 1

    def book(self, queue: str, place: Place, *, firm: bool, sign: int = 1) -> None:
        """Enter what a task has at a place for its queue and everything above it."""
        account = self.by_name.get(queue)
        if account is None:
            return
        amounts = place.amounts
        cell = self._cell_at(place) if self.parts.all else ()
        for each in account.path:
            each.version += 1
            for r in RESOURCES:
                each.held[r] += sign * amounts[r]
                if firm:
                    each.firm[r] += sign * amounts[r]
            for number in cell:
                stake = each.stakes[number]
                stake.held += sign * amounts[GPU]
                if firm:
                    stake.firm += sign * amounts[GPU]

    def barrier(self, queue: str, request: Amounts, *, firm: bool) -> Barrier | None:
        """What forbids the queue that much more, from itself up; None when nothing does."""
        for account in self.by_name[queue].path:
            if found := account.barrier(request, firm=firm):
                return found
        return None

    def part_barrier(self, queue: str, cell: Cell, milli: int, *, firm: bool) -> Barrier | None:
        """What forbids the queue so much more of GPUs of these parts, from itself up."""
        for number in cell:
            part = (number, self.parts.all[number])
            for account in self.by_name[queue].path:
                if found := account.part_barrier(part, milli, milli if firm else 0):
                    return found
        return None

    def quota_barrier(self, queue: str, request: Amounts) -> Barrier | None:
        """What forbids the queue that much more for work that cannot be preempted."""
        for account in self.by_name[queue].path:
            if found := account.quota_barrier(request):
                return found
        return None

    def standings(self) -> dict[str, Standing]:
        """Every queue as the rules of reclaim see it, at this moment."""
        version = sum(root.version for root in self.roots)
        if self._standings is None or self._standings[0] != version:
            self._standings = (version, self._standing())
        return self._standings[1]

    def _standing(self) -> dict[str, Standing]:
        return {
            name: Standing(
                parent=account.spec.parent,
                quota=account.spec.quota,
                limit=account.spec.limit,
                share=account.share,
                held=(account.held[0], account.held[1], account.held[2]),
                firm=(account.firm[0], account.firm[1], account.firm[2]),
                bounds_firm=account.spec.bounds_firm,
                parts=tuple(stake.standing for stake in account.stakes),
            )
            for name, account in self.by_name.items()
        }

    def _path(self, queue: str) -> list[Account]:
        path: list[Account] = []
        while queue in self.by_name and self.by_name[queue] not in path:
            path.append(self.by_name[queue])
            queue = path[-1].spec.parent
        return path

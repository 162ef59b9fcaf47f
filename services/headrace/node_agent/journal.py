"""The journal of reports: what this node has to say, numbered, kept until the log has it.

Rule: a number is given once within an incarnation. An incarnation ends with the boot it was made
in, or with its file: after either nobody can say which numbers were used, so a new one begins and
what the log is not known to have is reported again under it. That is why writing needs no fsync:
only a crash of the machine loses what was written, and that is another boot.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator

import msgspec

from headrace.bus.agents import Report
from headrace.node_agent.machine import AttemptKey
from headrace.node_agent.reconcile import NOTHING_REPORTED, Reported

BATCH_MAX = 256  # reports in one message


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """Whose numbers these are. `granter` names the key that signs this node's grants."""

    incarnation: str
    boot: str
    granter: str = ""
    version: int = 1


class Lineage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line of the log's history: its name ("": none is known), and its place in their order."""

    name: str = ""
    epoch: int = 0


class Line(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One line of the journal as kept: exactly one of these is set."""

    header: Header | None = None
    report: Report | None = None
    recorded: int = 0  # through this number the log has everything
    taken: tuple[int, int] | None = None
    is_old: bool = False  # with `taken`: the document spoke to this incarnation
    rebooted_at: int = 0
    forgotten: AttemptKey | None = None
    lineage: Lineage | None = None


class Journal:
    """The journal in memory; `FileJournal` keeps the same on disk."""

    def __init__(self, header: Header) -> None:
        self.header = header
        self.is_new = True  # no document that speaks to this incarnation was obeyed yet
        self.taken: tuple[int, int] = (0, 0)  # epoch, position of the newest document obeyed
        self.rebooted_at = 0  # grants up to this position were made before the machine's boot
        self.recorded_through = 0
        self.lineage = Lineage()  # of the log that this node follows
        self._last = 0
        self._reports: dict[int, Report] = {}  # in the order of their numbers
        self._numbers: dict[AttemptKey, dict[str, int]] = {}
        self._faults: list[int] = []  # the numbers of reports that concern devices

    @property
    def incarnation(self) -> str:
        """The name of this run of numbers."""
        return self.header.incarnation

    def add(self, report: Report) -> None:
        """Keep a report under the next number; one of its kind per attempt, or per wish."""
        numbered = msgspec.structs.replace(report, sequence=self._last + 1)
        self._keep(Line(report=numbered))
        self._hold(numbered)

    def reported(self, key: AttemptKey) -> Reported:
        """What has been reported of this attempt."""
        numbers = self._numbers.get(key)
        if numbers is None:
            return NOTHING_REPORTED
        return Reported(
            started="started" in numbers,
            exited="exited" in numbers,
            settled=max(numbers.values()) <= self.recorded_through,
            phase_at=max((int(what[1:]) for what in numbers if what[0] == "@"), default=0),
        )

    def attempts(self) -> list[AttemptKey]:
        """The attempts that something was reported of, not yet forgotten."""
        return list(self._numbers)

    def unrecorded(self, after: int = 0) -> tuple[Report, ...]:
        """The oldest reports that the log is not known to have, beyond number `after`."""
        first = max(after, self.recorded_through) + 1
        found = (self._reports[n] for n in range(first, self._last + 1) if n in self._reports)
        return tuple(itertools.islice(found, BATCH_MAX))

    def recorded(self, through: int) -> list[AttemptKey]:
        """The log has everything up to this number; the attempts that this settles."""
        through = min(through, self._last)
        if through <= self.recorded_through:
            return []
        fresh = range(self.recorded_through + 1, through + 1)
        reports = [self._reports[n] for n in fresh if n in self._reports]
        self._keep(Line(recorded=through))
        self._settle(through)
        return [_key(report) for report in reports if not report.device]

    def take(self, epoch: int, position: int) -> None:
        """A document of this epoch and position is obeyed."""
        if (epoch, position) != self.taken:
            self._keep(Line(taken=(epoch, position), is_old=True))
            self.taken = (epoch, position)
        self.is_new = False

    def reboot(self, position: int) -> None:
        """Nothing that was granted up to this position is to be started any more."""
        if position > self.rebooted_at:
            self._keep(Line(rebooted_at=position))
            self.rebooted_at = position

    def enter(self, lineage: Lineage) -> None:
        """The first log that this journal hears of is of this lineage."""
        self._keep(Line(lineage=lineage))
        self.lineage = lineage

    def follow(self, lineage: Lineage, began_at: int) -> None:
        """Follow the log to a line of history that began at `began_at`, and that may lack the end of
        the one before: everything still known is said anew under another incarnation, and of what
        was granted up to there nothing is started.
        """
        told = list(self._reports.values())
        name = hashlib.sha256(f"{self.incarnation} {lineage.name}".encode()).hexdigest()[:16]
        self.header = msgspec.structs.replace(self.header, incarnation=name)
        self.lineage, self.is_new = lineage, True
        self.taken, self.rebooted_at, self.recorded_through, self._last = (0, 0), began_at, 0, 0
        self._reports, self._numbers, self._faults = {}, {}, []
        for number, report in enumerate(told, start=1):
            self._hold(msgspec.structs.replace(report, sequence=number))
        self._replace()

    def forget(self, key: AttemptKey) -> None:
        """Everybody has heard all there is to say of this attempt."""
        if key in self._numbers:
            self._keep(Line(forgotten=key))
            self._drop(key)

    def close(self) -> None:
        """Nothing more is added."""

    def _keep(self, line: Line) -> None:
        """Make one line durable; memory needs nothing."""

    def _replace(self) -> None:
        """Make all of it durable anew; memory needs nothing."""

    def _hold(self, report: Report) -> None:
        self._last = max(self._last, report.sequence)
        self._reports[report.sequence] = report
        if report.device:
            self._faults.append(report.sequence)
            return
        self._numbers.setdefault(_key(report), {})[_name(report)] = report.sequence

    def _settle(self, through: int) -> None:
        """What concerns a device, and no attempt, is not asked about again."""
        self.recorded_through = through
        while self._faults and self._faults[0] <= through:
            self._reports.pop(self._faults.pop(0), None)

    def _drop(self, key: AttemptKey) -> None:
        for number in self._numbers.pop(key, {}).values():
            self._reports.pop(number, None)

    def apply(self, line: Line) -> None:
        """Follow one line as it was kept."""
        if line.report is not None:
            self._hold(line.report)
        elif line.forgotten is not None:
            self._drop(line.forgotten)
        elif line.lineage is not None:
            self.lineage = line.lineage
        elif line.taken is not None:
            self.taken, self.is_new = line.taken, not line.is_old
        self._settle(max(self.recorded_through, line.recorded))
        self._last = max(self._last, self.recorded_through)
        self.rebooted_at = max(self.rebooted_at, line.rebooted_at)

    def lines(self) -> Iterator[Line]:
        """What the journal holds, as few lines as possible."""
        yield Line(header=self.header)
        if self.lineage.name:
            yield Line(lineage=self.lineage)
        for report in self._reports.values():
            yield Line(report=report)
        yield Line(taken=self.taken, is_old=not self.is_new)
        if self.recorded_through:
            yield Line(recorded=self.recorded_through)
        if self.rebooted_at:
            yield Line(rebooted_at=self.rebooted_at)

    def _continue(self, earlier: Journal) -> None:
        """Begin with what an earlier incarnation held, numbered anew: what the log is not known
        to have from 1 on, the rest, kept only to know that it was said, below.
        """
        if earlier.header.granter == self.header.granter:
            self.taken, self.rebooted_at = earlier.taken, earlier.rebooted_at
            self.lineage = earlier.lineage
        done = [r for n, r in earlier._reports.items() if n <= earlier.recorded_through]
        owed = [r for n, r in earlier._reports.items() if n > earlier.recorded_through]
        for number, report in enumerate([*done, *owed], start=1 - len(done)):
            self._hold(msgspec.structs.replace(report, sequence=number))


def _key(report: Report) -> AttemptKey:
    return AttemptKey(report.job, report.attempt, report.rank)


def _name(report: Report) -> str:
    """What there is one of: each start and end, and each answer to what was asked at a position."""
    return f"@{report.asked_at}" if report.asked_at else report.what

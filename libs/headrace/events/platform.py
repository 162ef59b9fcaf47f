"""The platform itself: who leads, with which code and settings; what was used."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from headrace.events.base import Decision, Fact

LOG_OWNER = "log"  # owns what no service may append: only an administrator of the database does
RESTORED, FORKED = "restored", "forked"  # how a line of history may begin, besides new


class LogBegan(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="log.began.v1"):
    """A line of history begins here: the log's first event, and again wherever the log is continued
    from an older copy of itself.

    `lineage` names the line and `epoch` orders it after every line before it. `how` is new, restored
    (from a copy, in place of the log that had gone on) or forked (beside that log: nodes and jobs up
    to here belong to the other one). `before` is the lineage that it continues, `master_key` a digest
    of the key that the projects' keys are wrapped with.
    """

    owner: ClassVar[str] = LOG_OWNER
    stream: ClassVar[str] = "log"
    lineage: str
    epoch: int
    how: str = "new"
    before: str = ""
    master_key: str = ""


def own_lines(began: Iterable[LogBegan]) -> list[str]:
    """The lines of history that are this log's alone, the one that it is in last: what comes before a
    fork is the original's too. `began` in the log's order.
    """
    lines: list[str] = []
    for line in began:
        lines = [line.lineage] if line.how == FORKED else [*lines, line.lineage]
    return lines


def others_log_text(lineage: str) -> str:
    """What to do about a bus on which another platform keeps its log's copy."""
    return (
        f"the bus keeps the log of another platform (lineage {lineage[:8]}): give each a server, or an"
        " account, of its own; if that platform is gone, delete its stream there (nats stream rm LOG)"
    )


class ServiceLed(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="service.led.v1"):
    """A service's first append under a new epoch: from here on it decides, and with what.

    `decision_version` is a digest of the deciding code; `settings` are the numbers `decide` reads.
    """

    owner: ClassVar[str] = "*"
    stream: ClassVar[str] = "service/{service}"
    service: str
    epoch: int
    decision_version: str
    settings: dict[str, int] = {}


class ClockStepped(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="clock.stepped.v1"):
    """The database's clock was set, forwards by `by_us` microseconds (backwards below 0). The log's time
    went on as if it had not been.
    """

    owner: ClassVar[str] = "*"
    stream: ClassVar[str] = "platform"
    by_us: int


class UsageAccounted(
    Decision, frozen=True, kw_only=True, omit_defaults=True, tag="usage.accounted.v1"
):
    """What one attempt used, or those of its workers that came or went by themselves: thousandths
    of a GPU times microseconds held, and its bill's lines.
    """

    owner: ClassVar[str] = "metrics"
    stream: ClassVar[str] = "usage/{project}"
    public: ClassVar[tuple[str, ...]] = ("job", "project", "attempt", "milli", "held_us")
    job: str
    project: str
    attempt: int
    milli: int
    held_us: int

"""The platform itself: who leads, with which code and settings; what was used."""

from __future__ import annotations

from typing import ClassVar

from headrace.events.base import Decision, Fact


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

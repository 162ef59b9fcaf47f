"""The document of administrators that says how turns are taken in the whole fleet.

Rule: there is one, so it has no name; what it leaves out is as the platform has it.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from headrace.documents.job_file import Number
from headrace.documents.quantities import duration_us, milli, whole
from headrace.documents.refusing import refuse
from headrace.documents.shape import Part, Parts, shaped
from headrace.events.scheduling import Scheduling

SCHEDULING = "scheduling"
STRENGTH_MAX_MILLI = 100_000
HALF_LIFE_MIN_S, HALF_LIFE_MAX_S = 60, 365 * 86_400
WAIT_MAX_S = 365 * 86_400
RESERVATIONS_MAX = 64
SECOND_US = 1_000_000
UNSAID = -1


class PastUsage(Part):
    """How much what a queue used lately counts beside its weight: 0 not at all, 1 as much; and after
    how long it counts half. Who has run shorter than `min_runtime` is not stopped for it.
    """

    strength: Number = ""
    half_life: str = ""
    min_runtime: str = ""


class Reservations(Part):
    """Who waits longer than `after` is told when it starts at the latest; `at_most` so many kinds
    of gangs at a time.
    """

    after: str = ""
    at_most: Number = ""


class Consolidation(Part):
    """Who waits longer than `after` may have others moved together."""

    after: str = ""


class SchedulingDocument(Part):
    """How turns are taken."""

    parts: ClassVar[Parts] = {
        "past_usage": PastUsage, "reservations": Reservations, "consolidation": Consolidation,
    }  # fmt: skip

    type: str = ""
    past_usage: PastUsage = msgspec.field(default_factory=PastUsage)
    reservations: Reservations = msgspec.field(default_factory=Reservations)
    consolidation: Consolidation = msgspec.field(default_factory=Consolidation)


def scheduling_of(document: object) -> Scheduling:
    """What a document chooses. Raises `DocumentError`."""
    asked = shaped(document, SchedulingDocument)
    usage, reservations = asked.past_usage, asked.reservations
    return Scheduling(
        usage_strength_milli=_strength("past_usage.strength", usage.strength),
        usage_half_life_s=_seconds(
            "past_usage.half_life", usage.half_life, HALF_LIFE_MIN_S, HALF_LIFE_MAX_S
        ),
        usage_min_runtime_s=_seconds("past_usage.min_runtime", usage.min_runtime, 0, WAIT_MAX_S),
        reserve_after_s=_seconds("reservations.after", reservations.after, 1, WAIT_MAX_S),
        reservations_max=_count("reservations.at_most", reservations.at_most),
        consolidate_after_s=_seconds(
            "consolidation.after", asked.consolidation.after, 1, WAIT_MAX_S
        ),
    )


def _strength(field: str, value: Number) -> int:
    if value == "":
        return UNSAID
    strength = milli(field, value)
    if strength > STRENGTH_MAX_MILLI:
        refuse(field, f"is at most {STRENGTH_MAX_MILLI // 1000}", value=value)
    return strength


def _count(field: str, value: Number) -> int:
    return UNSAID if value == "" else whole(field, value, 0, RESERVATIONS_MAX)


def _seconds(field: str, value: str, least: int, most: int) -> int:
    if not value:
        return UNSAID
    seconds, rest = divmod(duration_us(field, value), SECOND_US)
    if rest or not least <= seconds <= most:
        refuse(field, f"must be whole seconds, {least} to {most}", value=value)
    return seconds

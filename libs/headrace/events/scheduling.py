"""How turns are taken in the whole fleet, as administrators choose it."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from headrace.events.base import Decision, Fact, Refusal


class Scheduling(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What administrators choose; -1: as the platform has it.

    `usage_strength_milli` is how much past usage counts beside weights when what is over quota is
    divided (0: not at all, 1000: as much), and it counts half as much after `usage_half_life_s`.
    While it counts, what has run shorter than `usage_min_runtime_s` is not taken for somebody
    beyond a quota, unless a queue says for how long.
    Who waits longer than `reserve_after_s` is told when it starts at the latest,
    `reservations_max` kinds of gangs at a time. Who waits shorter than `consolidate_after_s` has
    nobody moved.
    """

    usage_strength_milli: int = -1
    usage_half_life_s: int = -1
    reserve_after_s: int = -1
    reservations_max: int = -1
    consolidate_after_s: int = -1
    usage_min_runtime_s: int = -1

    def chosen(self) -> dict[str, int]:
        """The numbers that are chosen, by their names."""
        numbers = {name: getattr(self, name) for name in self.__struct_fields__}
        return {name: number for name, number in numbers.items() if number >= 0}


class SchedulingApplyRequested(
    Fact, frozen=True, kw_only=True, omit_defaults=True, tag="scheduling.apply_requested.v1"
):
    """An administrator applied the document that says how turns are taken."""

    owner: ClassVar[str] = "placement"
    stream: ClassVar[str] = "scheduling"
    scheduling: Scheduling
    user: str = ""
    document: str = ""  # as it was applied, in JSON


class SchedulingConfigured(
    Decision, frozen=True, kw_only=True, omit_defaults=True, tag="scheduling.configured.v1"
):
    """Turns are taken like that from now on. `change` is created, updated or unchanged."""

    owner: ClassVar[str] = "placement"
    stream: ClassVar[str] = "scheduling"
    scheduling: Scheduling
    change: str


class SchedulingRefused(
    Decision, frozen=True, kw_only=True, omit_defaults=True, tag="scheduling.refused.v1"
):
    """Turns cannot be taken like that, and why."""

    owner: ClassVar[str] = "placement"
    stream: ClassVar[str] = "scheduling"
    refusal: Refusal


class SchedulingDeleteRequested(
    Fact, frozen=True, kw_only=True, omit_defaults=True, tag="scheduling.delete_requested.v1"
):
    """An administrator wants turns to be taken as the platform has it."""

    owner: ClassVar[str] = "placement"
    stream: ClassVar[str] = "scheduling"
    user: str = ""


class SchedulingDeleted(
    Decision, frozen=True, kw_only=True, omit_defaults=True, tag="scheduling.deleted.v1"
):
    """Turns are taken as the platform has it from now on."""

    owner: ClassVar[str] = "placement"
    stream: ClassVar[str] = "scheduling"

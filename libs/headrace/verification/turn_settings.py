"""The settings by which placement takes turns, as the log has them.

Rule: what administrators chose is in force whoever leads, else what the leader recorded.
"""

from __future__ import annotations

from typing import TypeAlias, get_args

from headrace.events.platform import ServiceLed
from headrace.events.scheduling import SchedulingConfigured, SchedulingDeleted

DEFAULTS = {  # of placement, where whoever led did not record them
    "reserve_after_s": 600,
    "release_s": 60,
    "reservations_max": 8,
    "reserve_steps_max": 600,
}

SettingsEvent: TypeAlias = ServiceLed | SchedulingConfigured | SchedulingDeleted
SETTINGS_EVENTS: tuple[type[SettingsEvent], ...] = get_args(SettingsEvent)


class TurnSettings:
    """Those in force, by name."""

    def __init__(self) -> None:
        self._led = DEFAULTS
        self._chosen: dict[str, int] = {}

    def __getitem__(self, name: str) -> int:
        """The number in force."""
        return self._chosen.get(name, self._led[name])

    def look(self, event: SettingsEvent) -> None:
        """Another instance leads from now on, or an administrator chose others, or none any more."""
        if isinstance(event, SchedulingConfigured):
            self._chosen = event.scheduling.chosen()
        elif isinstance(event, SchedulingDeleted):
            self._chosen = {}
        elif event.service == "placement":
            self._led = {**DEFAULTS, **event.settings}

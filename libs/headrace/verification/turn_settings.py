"""The settings by which placement takes turns, as the log has them.

Rule: what administrators chose is in force whoever leads, else what the leader recorded.
"""

from __future__ import annotations

from headrace.events.platform import ServiceLed
from headrace.events.scheduling import SchedulingConfigured

DEFAULTS = {  # of placement, where whoever led did not record them
    "reserve_after_s": 600,
    "release_s": 60,
    "reservations_max": 8,
    "reserve_steps_max": 600,
}


class TurnSettings:
    """Those in force, by name."""

    def __init__(self) -> None:
        self._led = DEFAULTS
        self._chosen: dict[str, int] = {}

    def __getitem__(self, name: str) -> int:
        """The number in force."""
        return self._chosen.get(name, self._led[name])

    def look(self, event: ServiceLed | SchedulingConfigured) -> None:
        """Another instance leads from now on, or an administrator chose others."""
        if isinstance(event, SchedulingConfigured):
            self._chosen = event.scheduling.chosen()
        elif event.service == "placement":
            self._led = {**DEFAULTS, **event.settings}

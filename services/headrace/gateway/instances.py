"""Which instances of services are there, as they say themselves.

Rule: for people who look. A service is believed about itself; one that said nothing lately is not there.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from headrace.bus import subjects
from headrace.bus.interface import Bus, Message, Subscription
from headrace.bus.presence import HEARD_S, Presence
from headrace.client.model import InstanceRow

INSTANCES_MAX = 256

_PRESENCE = msgspec.json.Decoder(Presence)


class InstancesHeard:
    """Those that were heard in the last seconds, by a steady clock."""

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        self._monotonic_s = monotonic_s
        self._heard: dict[tuple[str, str], tuple[float, Presence]] = {}
        self._subscription: Subscription | None = None

    async def listen(self, bus: Bus) -> None:
        """Start listening."""
        self._subscription = await bus.listen(subjects.PRESENCE, self._hear)

    def rows(self, head: int) -> list[InstanceRow]:
        """Who is there now, those that lead first; `head` is the last position known here."""
        self._forget()
        said = [presence for _, presence in self._heard.values()]
        head = max((head, *(presence.position for presence in said)))
        rows = [
            InstanceRow(
                service=presence.service,
                instance=presence.instance,
                leading=presence.leading,
                epoch=presence.epoch,
                position=presence.position,
                lag=head - presence.position,
                memory_bytes=presence.memory_bytes,
                files=presence.files,
            )
            for presence in said
        ]
        return sorted(rows, key=lambda row: (row.service, not row.leading, row.instance))

    def _forget(self) -> None:
        since_s = self._monotonic_s() - HEARD_S
        self._heard = {key: heard for key, heard in self._heard.items() if heard[0] >= since_s}

    def _hear(self, message: Message) -> None:
        try:
            presence = _PRESENCE.decode(message.data)
        except msgspec.MsgspecError:
            return
        key = (presence.service, presence.instance)
        if key not in self._heard and len(self._heard) >= INSTANCES_MAX:
            self._forget()
        if key in self._heard or len(self._heard) < INSTANCES_MAX:
            self._heard[key] = (self._monotonic_s(), presence)

"""Passes on what workers report about themselves, for whom it may concern.

Rule: signals, never stored: what has changed goes out with a heartbeat, all of it now and then for
who came later. What a worker said last goes into the log with its end (`reporting`).
"""

from __future__ import annotations

import msgspec

from headrace.bus import subjects
from headrace.bus.agents import Progress, Reported
from headrace.bus.interface import Bus
from headrace.node_agent.machine import AttemptKey, Machine

ALL_EVERY_BEATS = 15
WORKERS_MAX = 256  # in one message; the others go out with the next

_ENCODER = msgspec.json.Encoder()


class ProgressSender:
    """What this node's workers said, and what of it was passed on."""

    def __init__(self, bus: Bus, node: str, machine: Machine) -> None:
        self._bus, self._node, self._machine = bus, node, machine
        self._sent: dict[AttemptKey, dict[str, str]] = {}
        self._beats = 0

    async def send(self) -> None:
        """Look at everything that runs, and send what is new. Raises `BusError`."""
        if self._beats % ALL_EVERY_BEATS == 0:
            self._sent.clear()
        self._beats += 1
        workers: list[Reported] = []
        for key in self._machine.held():
            values, seen = self._machine.reported(key), self._machine.look(key)
            is_new = values and values != self._sent.get(key)
            if is_new and seen is not None and len(workers) < WORKERS_MAX:
                self._sent[key] = values
                workers.append(Reported(**key._asdict(), project=seen.project, values=values))
        if workers:
            progress = Progress(node=self._node, workers=tuple(workers))
            await self._bus.publish(subjects.progress_up(self._node), _ENCODER.encode(progress))

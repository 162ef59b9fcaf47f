"""Passes on what workers report about themselves, for whom it may concern.

Rule: signals, never stored: what has changed goes out every two seconds, all of it now and then for
who came later. What a worker said last goes into the log with its end (`reporting`).
"""

from __future__ import annotations

import asyncio
import contextlib

import msgspec

from headrace.bus import subjects
from headrace.bus.agents import Progress, Reported
from headrace.bus.interface import Bus, BusError
from headrace.node_agent.machine import AttemptKey, Machine

LOOK_S = 2.0  # between two looks at the workers' files
ALL_EVERY_LOOKS = 15
WORKERS_MAX = 256  # in one message; the others go out with the next

_ENCODER = msgspec.json.Encoder()


class ProgressSender:
    """What this node's workers said, and what of it was passed on."""

    def __init__(self, bus: Bus, node: str, machine: Machine) -> None:
        self._bus, self._node, self._machine = bus, node, machine
        self._sent: dict[AttemptKey, dict[str, str]] = {}
        self._looks = 0

    async def run(self) -> None:
        """Look for ever."""
        while True:
            await asyncio.sleep(LOOK_S)
            await self.look()

    async def look(self) -> None:
        """Look once at everything that runs, and send what is new."""
        if self._looks % ALL_EVERY_LOOKS == 0:
            self._sent.clear()
        self._looks += 1
        workers: list[Reported] = []
        for key in self._machine.held():
            values, seen = self._machine.reported(key), self._machine.look(key)
            is_new = values and values != self._sent.get(key)
            if is_new and seen is not None and len(workers) < WORKERS_MAX:
                self._sent[key] = values
                workers.append(Reported(**key._asdict(), project=seen.project, values=values))
        if workers and self._bus.connected:
            progress = Progress(node=self._node, workers=tuple(workers))
            with contextlib.suppress(BusError):
                subject = subjects.progress_up(self._node)
                await self._bus.publish(subject, _ENCODER.encode(progress))

"""Says every two seconds that the node is there, how its devices are used, and what its workers say."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import msgspec

from headrace.bus import subjects
from headrace.bus.agents import Signal
from headrace.bus.interface import Bus, BusError
from headrace.node_agent.device_care import DeviceCare
from headrace.node_agent.journal import Journal
from headrace.node_agent.machine import Machine
from headrace.node_agent.progress import ProgressSender

SIGNAL_S = 2.0  # between two heartbeats

_ENCODER = msgspec.json.Encoder()


class Heartbeats:
    """`said` is what the node is; `changed` is called when that is something else than before,
    `missed` when a connection comes back: something may have been missed meanwhile; `looked` at
    every beat, connected or not.
    """

    def __init__(
        self,
        bus: Bus,
        node: str,
        journal: Journal,
        care: DeviceCare,
        machine: Machine,
        *,
        said: Callable[[], object],
        changed: Callable[[], None],
        missed: Callable[[], None],
        looked: Callable[[], None],
    ) -> None:
        self._bus, self._node, self._journal = bus, node, journal
        self._care, self._machine = care, machine
        self._progress = ProgressSender(bus, node, machine)
        self._said, self._changed, self._missed, self._looked = said, changed, missed, looked

    async def run(self) -> None:
        """Beat for ever."""
        was_connected, before = True, self._said()
        while True:
            await asyncio.sleep(SIGNAL_S)
            self._looked()
            samples, running = await self._care.look()
            if not self._bus.connected:
                was_connected = False
                continue
            if not was_connected:
                was_connected = True
                self._missed()
            if (now := self._said()) != before:
                before = now
                self._changed()
            signal = Signal(
                node=self._node,
                incarnation=self._journal.incarnation,
                samples=tuple((s.device, s.busy_milli, s.used_bytes) for s in samples),
                running=running,
                disk_permille=self._machine.disk_permille(),
            )
            with contextlib.suppress(BusError):
                await self._bus.publish(
                    subjects.agent_up(self._node, "signal"), _ENCODER.encode(signal)
                )
                await self._progress.send()

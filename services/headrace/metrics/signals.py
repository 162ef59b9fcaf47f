"""The agents' samples, as they last arrived: sent often, never stored.

Rule: a node is believed about its own devices, as the log has them. What a device does not say is
unknown, never 0.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from headrace.bus import subjects
from headrace.bus.agents import Signal
from headrace.bus.interface import Message, Subscription
from headrace.events import Entry
from headrace.events.nodes import NodeChanged
from headrace.metrics.state import GONE
from headrace.metrics.watching import Watching
from headrace.runtime.progress import ProgressHeard
from headrace.runtime.service import Runtime

DEVICES_MAX = 100_000  # samples kept; more devices than that are not shown

_SIGNAL = msgspec.json.Decoder(Signal)


class Signals:
    """A shell that only listens."""

    def __init__(self) -> None:
        self.busy_permille: dict[tuple[str, str], int] = {}
        self.watching = Watching()
        self.progress = ProgressHeard(time.monotonic, self.watching.is_placed)
        self._subscription: Subscription | None = None

    async def lead(self, runtime: Runtime) -> None:
        """Start listening."""
        subject = subjects.agents_up("signal")
        self._runtime = runtime
        await self.watching.lead(runtime)
        self._subscription = await runtime.bus.listen(subject, self._heard)
        await self.progress.listen(runtime.bus)

    async def committed(self, entries: Sequence[Entry]) -> None:
        """Forget how the devices of nodes that have gone were used."""
        changes = (e.event for e in entries if isinstance(e.event, NodeChanged))
        gone = {event.node for event in changes if event.change in GONE}
        for key in [key for key in self.busy_permille if key[0] in gone]:
            del self.busy_permille[key]

    async def close(self) -> None:
        """Stop listening."""
        if self._subscription is not None:
            await self._subscription.stop()
            self._subscription = None
        await self.progress.stop()
        await self.watching.close()
        self.busy_permille.clear()

    def _heard(self, message: Message) -> None:
        try:
            signal = _SIGNAL.decode(message.data)
        except msgspec.MsgspecError:
            return
        node = message.subject.split(".")[2]
        self.watching.sampled(node, signal)
        machine = self._runtime.state.nodes.get(node)
        if machine is None:
            return
        for device, permille, _ in signal.samples:
            key = (node, device)
            if device not in machine.devices:
                continue
            if permille is None:
                self.busy_permille.pop(key, None)
            elif key in self.busy_permille or len(self.busy_permille) < DEVICES_MAX:
                self.busy_permille[key] = permille

"""What running workers said last of themselves, as their nodes' agents pass it on.

Rule: signals: bounded, forgotten when nobody repeats them, and nothing depends on them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator

import msgspec

from headrace.bus import subjects
from headrace.bus.agents import Progress, Reported
from headrace.bus.interface import Bus, Message, Subscription

WORKERS_MAX = 10_000  # the one heard of longest ago goes first
KEPT_S = 90.0  # agents repeat everything within a third of this

_PROGRESS = msgspec.json.Decoder(Progress)


class ProgressHeard:
    """By worker, its last report. `monotonic` is a clock in seconds."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._heard: OrderedDict[tuple[str, int, int], tuple[float, Reported]] = OrderedDict()
        self._subscription: Subscription | None = None

    async def listen(self, bus: Bus) -> None:
        """Start listening."""
        self._subscription = await bus.listen(subjects.PROGRESS, self._hear)

    async def stop(self) -> None:
        """Stop listening, and forget."""
        if self._subscription is not None:
            await self._subscription.stop()
            self._subscription = None
        self._heard.clear()

    def all(self) -> Iterator[Reported]:
        """What is not too old, the longest unheard first."""
        since_s = self._monotonic() - KEPT_S
        return (said for at_s, said in self._heard.values() if at_s >= since_s)

    def of(self, job: str, attempt: int) -> dict[int, dict[str, str]]:
        """The values of one attempt's workers, by rank."""
        return {said.rank: said.values for said in self.all() if _is_of(said, job, attempt)}

    def _hear(self, message: Message) -> None:
        try:
            progress = _PROGRESS.decode(message.data)
        except msgspec.MsgspecError:
            return
        for said in progress.workers:
            key = (said.job, said.attempt, said.rank)
            self._heard[key] = (self._monotonic(), said)
            self._heard.move_to_end(key)
        while len(self._heard) > WORKERS_MAX:
            self._heard.popitem(last=False)


def _is_of(said: Reported, job: str, attempt: int) -> bool:
    return said.job == job and said.attempt == attempt

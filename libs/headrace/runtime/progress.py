"""What running workers said last of themselves, as their nodes' agents pass it on.

Rule: signals: bounded, forgotten when nobody repeats them, and nothing depends on them. A node is
believed about workers that the log has placed on it, and about no other; that is judged when they
are read, for a report may be here before the placement that it follows.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator

import msgspec

from headrace.bus import subjects
from headrace.bus.agents import Progress, Reported
from headrace.bus.interface import Bus, Message, Subscription

WORKERS_MAX = 1_000  # of one node; the one heard of longest ago goes first
NODES_MAX = 10_000
KEPT_S = 90.0  # agents repeat everything within a third of this

_PROGRESS = msgspec.json.Decoder(Progress)


IsPlaced = Callable[[str, Reported], bool]
"""Whether the log has placed this worker, of this project, on the node."""


class ProgressHeard:
    """By node and worker, its last report. `monotonic` is a clock in seconds."""

    def __init__(self, monotonic: Callable[[], float], is_placed: IsPlaced) -> None:
        self._monotonic, self._is_placed = monotonic, is_placed
        self._heard: dict[str, OrderedDict[tuple[str, int, int], tuple[float, Reported]]] = {}
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
        """What is not too old and said by the worker's own node; of each node, the longest unheard
        first.
        """
        since_s = self._monotonic() - KEPT_S
        for node, heard in self._heard.items():
            for at_s, said in heard.values():
                if at_s >= since_s and self._is_placed(node, said):
                    yield said

    def of(self, job: str, attempt: int) -> dict[int, dict[str, str]]:
        """The values of one attempt's workers, by rank."""
        since_s = self._monotonic() - KEPT_S
        return {
            said.rank: said.values
            for node, heard in self._heard.items()
            for at_s, said in heard.values()
            if at_s >= since_s and _is_of(said, job, attempt) and self._is_placed(node, said)
        }

    def _hear(self, message: Message) -> None:
        try:
            progress = _PROGRESS.decode(message.data)
        except msgspec.MsgspecError:
            return
        node = message.subject.split(".")[2]
        if node not in self._heard and len(self._heard) >= NODES_MAX:
            return
        heard = self._heard.setdefault(node, OrderedDict())
        for said in progress.workers:
            key = (said.job, said.attempt, said.rank)
            heard[key] = (self._monotonic(), said)
            heard.move_to_end(key)
        while len(heard) > WORKERS_MAX:
            heard.popitem(last=False)


def _is_of(said: Reported, job: str, attempt: int) -> bool:
    return said.job == job and said.attempt == attempt

"""The conditions on the bus and at the store, moment by moment.

Rule: everything drawn here comes from the history's own chance, in the order in which things
happen on the virtual loop.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter

from headrace.bus.interface import Message
from headrace.store.interface import Unavailable

BUS_S_MAX = 0.001  # a message on a good day
STORE_S_MAX = 0.003  # a call of the store on a good day
LATE_S_MAX = 3.0
BAD_SHARE = 0.25  # of the messages that a bad condition touches


class Weather:
    """Until when each condition lasts, and what it does to a message or a call."""

    def __init__(self, chance: random.Random, fired: Counter[str]) -> None:
        self._chance = chance
        self._fired = fired
        self._until_s: dict[str, float] = {}

    def begin(self, condition: str, for_s: float) -> None:
        """Let a condition hold: a kind of fault, perhaps with `/<whom>`."""
        until_s = _now_s() + for_s
        self._until_s[condition] = max(until_s, self._until_s.get(condition, 0.0))

    def holds(self, condition: str) -> bool:
        """Whether the condition holds now."""
        return _now_s() < self._until_s.get(condition, 0.0)

    def clear(self) -> None:
        """Everything heals."""
        self._until_s.clear()

    def deliveries(self, _message: Message) -> list[float]:
        """The delay of each delivery of a message, in seconds."""
        chance = self._chance
        delay_s = chance.uniform(0.0, BUS_S_MAX)
        if not self._until_s:
            return [delay_s]
        if self._hits("bus.lost"):
            return []
        if self._hits("bus.late"):
            delay_s += chance.uniform(0.0, LATE_S_MAX)
        if self._hits("bus.repeated"):
            return [delay_s, delay_s + chance.uniform(0.0, LATE_S_MAX)]
        return [delay_s]

    async def store(self, operation: str, service: str, holder: str) -> None:
        """Called around each of a process's calls of the store. Raises `Unavailable`."""
        name, _, when = operation.partition(".")
        if when == "before":
            await asyncio.sleep(self._chance.uniform(0.0, STORE_S_MAX))
            for condition in (f"store.unavailable/{service}", f"store.unavailable/{holder}"):
                if self.holds(condition):
                    self._fired["store.unavailable"] += 1
                    raise Unavailable("the store cannot be reached")
        elif name == "append" and self.holds(f"store.commit_unknown/{service}"):
            del self._until_s[f"store.commit_unknown/{service}"]
            self._fired["store.commit_unknown"] += 1
            raise Unavailable("the reply of the commit was lost")

    def _hits(self, condition: str) -> bool:
        if not self.holds(condition) or self._chance.random() >= BAD_SHARE:
            return False
        self._fired[condition] += 1
        return True


def _now_s() -> float:
    return asyncio.get_running_loop().time()

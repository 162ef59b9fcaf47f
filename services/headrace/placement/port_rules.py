"""Which ports of its node each worker gets, so that no two workers at one address are told the same.

Rule: ports come in blocks of `PORTS_EACH`, from the range that the node's agent said is its own, in
turn: what was given back is the last to be given again. That nobody else listens there the agent
sees before it starts the worker.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from headrace.events.gangs import PORTS_EACH, Worker
from headrace.placement.state import State


class Ports:
    """The blocks that the placements of one turn take, one after the other."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._next: dict[str, int] = {}  # by address
        self._taken: dict[str, set[int]] = {}

    def given(self, workers: tuple[Worker, ...]) -> tuple[Worker, ...]:
        """The workers with their ports; none when an address has not got so many."""
        found = []
        for worker in workers:
            port = self._port(worker)
            if port is None:
                return ()
            found.append(msgspec.structs.replace(worker, port=port))
        return tuple(found)

    def _port(self, worker: Worker) -> int | None:
        said, address = self._state.machines[worker.node].said, worker.address
        first = -(-said.port_first // PORTS_EACH) * PORTS_EACH  # the same blocks for all at it
        count = (said.port_last + 1 - first) // PORTS_EACH
        taken, mine = self._state.ports.get(address, {}), self._taken.setdefault(address, set())
        start = self._next.get(address, self._state.ports_next.get(address, first))
        for step in range(min(count, len(taken) + len(mine) + 1)):
            port = first + ((start - first) // PORTS_EACH + step) % count * PORTS_EACH
            if port not in taken and port not in mine:
                mine.add(port)
                self._next[address] = port + PORTS_EACH
                return port
        return None


def take(state: State, job_id: str, workers: Iterable[Worker]) -> None:
    """These workers have their ports."""
    for worker in workers:
        if worker.port:
            state.ports.setdefault(worker.address, {})[worker.port] = job_id
            state.ports_next[worker.address] = worker.port + PORTS_EACH


def give(state: State, job_id: str, workers: Iterable[Worker]) -> None:
    """These workers have gone."""
    for worker in workers:
        taken = state.ports.get(worker.address, {})
        if taken.get(worker.port) == job_id:
            del taken[worker.port]

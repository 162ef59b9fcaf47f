"""Which ports of its node each worker gets, so that no two workers at one address are told the same.

Rule: a worker has one port as a whole and one for each of its processes, side by side, of the range
that its node's agent said is its own, in turn: what was given back is the last to be given again.
Nodes that are one machine share its address, and each goes through its own range.
That nobody else listens there the agent sees before it starts the worker; where somebody did, the
next ports are far off, for who listens at one often has its neighbours too.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from headrace.events.gangs import Worker
from headrace.placement.end_rules import PORTS_TAKEN
from headrace.placement.gang_environment import processes_of
from headrace.placement.state import Job, State

SKIPPED = 128  # ports, from those that somebody outside had


class Ports:
    """What the placements of one turn take, one after the other."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._next: dict[str, int] = {}  # by node
        self._taken: dict[str, set[int]] = {}  # by address

    def given(self, job: Job, workers: tuple[Worker, ...]) -> tuple[Worker, ...]:
        """The workers with their ports; none when an address has not got so many."""
        found = []
        for worker in workers:
            count = 1 + processes_of(job, worker)
            port = self._free(worker, count)
            if port is None:
                return ()
            found.append(msgspec.structs.replace(worker, port=port, ports=count))
        return tuple(found)

    def _free(self, worker: Worker, count: int) -> int | None:
        """The first of so many ports side by side: after what was given last, else from the first."""
        said, address = self._state.machines[worker.node].said, worker.address
        first, last = said.port_first, said.port_last
        theirs, mine = self._state.ports.get(address, {}), self._taken.setdefault(address, set())
        start = self._next.get(worker.node, self._state.ports_next.get(worker.node, first))
        for low, high in ((max(first, start), last), (first, min(last, start + count))):
            port = low
            while port + count <= high + 1:
                taken = [p for p in range(port, port + count) if p in theirs or p in mine]
                if not taken:
                    mine.update(range(port, port + count))
                    self._next[worker.node] = port + count
                    return port
                port = taken[-1] + 1
        return None


def take(state: State, job_id: str, workers: Iterable[Worker]) -> None:
    """These workers have their ports."""
    for worker in workers:
        if worker.ports:
            ports = dict.fromkeys(range(worker.port, worker.port + worker.ports), job_id)
            state.ports.setdefault(worker.address, {}).update(ports)
            state.ports_next[worker.node] = worker.port + worker.ports


def give(state: State, job_id: str, workers: Iterable[Worker]) -> None:
    """These workers have gone."""
    for worker in workers:
        taken = state.ports.get(worker.address, {})
        for port in range(worker.port, worker.port + worker.ports):
            if taken.get(port) == job_id:
                del taken[port]


def ended(state: State, worker: Worker | None, reason: str) -> None:
    """A worker ended; if somebody outside had its ports, those around them are left alone."""
    if worker is not None and reason == PORTS_TAKEN:
        past = worker.port + SKIPPED
        state.ports_next[worker.node] = max(past, state.ports_next.get(worker.node, 0))

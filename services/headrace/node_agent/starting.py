"""From an assignment to a worker that starts: what holds it to its share, what it runs, where.

Rule: called again and again until the worker has started; whatever takes time is done beside, and
calls back when it is done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from headrace.bus.agents import Assignment
from headrace.node_agent.device_care import DeviceCare
from headrace.node_agent.gang_network import RECORDED
from headrace.node_agent.machine import AttemptKey, End, Unopenable, Workplace
from headrace.node_agent.reconcile import key_of
from headrace.node_agent.surroundings import Surroundings

NOT_EXECUTABLE = 126  # as a shell has it


class Starter:
    """Starts workers. Without `workplaces` they work in folders that the node has."""

    def __init__(self, given: Surroundings, care: DeviceCare) -> None:
        self._machine, self._care, self._unseal = given.machine, care, given.unseal
        self._workplaces, self._is_taken = given.workplaces, given.is_taken
        self._network = given.network
        self._leavings = given.workplaces.leavings if given.workplaces is not None else None

    def start(self, assignment: Assignment, then: Callable[[], None]) -> End | None:
        """Bring the worker closer to its start; how it ended if it never can. `then` is called when
        there is more to do.
        """
        key = key_of(assignment)
        if not self._care.is_ready(key, assignment, then=then):
            return None
        if not self._network.is_settled(assignment, then):
            return None
        try:
            launch = self._unseal(assignment)
        except Unopenable as error:
            return End(reason="start-failed", exit_code=NOT_EXECUTABLE, message=str(error))
        place: Workplace | End | None = Workplace(cwd=launch.workdir)
        if self._workplaces is not None:
            place = self._workplaces.prepared(assignment, launch, then)
        if not isinstance(place, Workplace):
            return place
        if self._machine.look(key) is None and (port := self._taken(assignment)):
            message = f"port {port} is taken by somebody outside Headrace"
            return End(reason="ports-taken", exit_code=NOT_EXECUTABLE, message=message)
        if self._network.holds(assignment):
            place = msgspec.structs.replace(place, recorded=RECORDED)
        self._machine.start(assignment, launch, place)
        return None

    def _taken(self, assignment: Assignment) -> int:
        """The first of the worker's ports at which somebody else listens; 0 when all are free."""
        ports = range(assignment.port, assignment.port + assignment.ports)
        return next(filter(self._is_taken, ports), 0)

    async def tend(self) -> None:
        """Look after what is kept for workers that will start, for ever."""
        if self._workplaces is not None:
            await self._workplaces.tend()
        await asyncio.Event().wait()

    async def close(self) -> None:
        """Leave; what was being prepared is prepared anew."""
        if self._workplaces is not None:
            await self._workplaces.close()
        if self._leavings is not None:
            await self._leavings.close()
        await self._network.close()

    def ended(self, key: AttemptKey, end: End, then: Callable[[], None]) -> End | None:
        """The end of a worker with what is kept of it; None while that is seen to, and `then` will
        be called.
        """
        return end if self._leavings is None else self._leavings.kept(key, end, then)

    def drop(self, key: AttemptKey) -> None:
        """It is not to start any more."""
        if self._workplaces is not None:
            self._workplaces.drop(key)

"""What the agent does about its devices: looks at them, says what is wrong, keeps workers to shares.

Rule: what happened to a device is in the journal before the end of a worker that it may have caused,
so that placement knows the one when it judges the other.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from headrace.bus.agents import Assignment, Report
from headrace.events.nodes import Device
from headrace.node_agent.devices import IGNORE, Sample
from headrace.node_agent.enforcement import OVER_SHARE, WATCH
from headrace.node_agent.enforcement.enforcer import Enforcer
from headrace.node_agent.enforcement.leftovers import Leftovers
from headrace.node_agent.enforcement.memory_watch import is_suspicious, offences
from headrace.node_agent.journal import Journal
from headrace.node_agent.machine import AttemptKey, End, Machine, Seen
from headrace.node_agent.supervision import kernel
from headrace.node_agent.tasks import end_tasks

WATCH_S = 0.5  # between two looks at who holds how much, while somebody is watched

Aside = Callable[..., Awaitable[Any]]

_LOG = logging.getLogger("headrace.node_agent")


async def in_turn(call: Callable[..., Any], *arguments: Any) -> Any:
    """Call it here and now: for devices that never keep anybody waiting."""
    return call(*arguments)


class DeviceCare:
    """One node's devices and who uses them. `aside` runs what may take a while; `reported` is told
    that the journal has something new.
    """

    def __init__(
        self,
        enforcer: Enforcer,
        machine: Machine,
        journal: Journal,
        *,
        aside: Aside,
        now_us: Callable[[], int],
        reported: Callable[[], None],
    ) -> None:
        self._devices, self._enforcer, self._machine = enforcer.devices, enforcer, machine
        self._journal, self._aside, self._now_us = journal, aside, now_us
        self._reported = reported
        self.inventory: tuple[Device, ...] = self._devices.list()
        self._leftovers = Leftovers(kernel.name_of)
        self._held: dict[AttemptKey, dict[str, int]] = {}  # what offenders held
        self._preparing: dict[AttemptKey, asyncio.Task[None]] = {}

    async def look(self) -> tuple[tuple[Sample, ...], int]:
        """Look at everything once: how the devices are used, and how many workers run."""
        self.hear()
        self.inventory = await self._aside(self._devices.list)
        self._enforcer.know(self.inventory)
        await self._enforcer.settle(self._live())
        live = self._live()
        booked: dict[str, int] = {}
        for seen in live.values():
            for share in seen.shares:
                booked[share.device] = booked.get(share.device, 0) + share.milli
        samples = await self._aside(self._devices.sample, booked)
        self.inventory = self._leftovers.marked(self.inventory, samples, booked)
        return samples, len(live)

    def hear(self) -> None:
        """Put into the journal what has happened to devices."""
        for trouble in self._devices.watch():
            if trouble.action == IGNORE:
                _LOG.info("device=%s says %s", trouble.device, trouble.text)
                continue
            _LOG.error("device=%s %s: %s", trouble.device, trouble.action, trouble.text)
            report = Report(
                sequence=0,
                what="faulted",
                job="",
                attempt=0,
                rank=0,
                project="",
                at_us=self._now_us(),
                message=trouble.text,
                device=trouble.device,
                code=trouble.code,
                action=trouble.action,
            )
            self._journal.add(report)
            self._reported()

    async def guard(self) -> None:
        """End whoever holds more than its share, for ever."""
        while True:
            await asyncio.sleep(WATCH_S)
            limits = {
                key: self._enforcer.limits_of(seen.shares)
                for key, seen in self._live().items()
                if seen.enforcement == WATCH and not seen.stopping
            }
            if not limits:
                continue
            samples = await self._aside(self._devices.sample, {})
            if is_suspicious(samples, limits):
                owners = {pid: key for key in limits for pid in self._enforcer.processes_of(key)}
                for offence in offences(samples, limits, owners):
                    _LOG.warning("over its share job=%s attempt=%d rank=%d", *offence.key)
                    held = self._held.setdefault(offence.key, {})
                    held[offence.device] = offence.held_bytes
                    self._machine.stop(offence.key, OVER_SHARE, 0)

    def is_ready(self, key: AttemptKey, assignment: Assignment, then: Callable[[], None]) -> bool:
        """Whether what holds this worker to its share is there. If not it is seen to, `then` being
        called when it is.
        """
        if self._enforcer.is_ready(assignment):
            return True
        if key not in self._preparing:
            task = asyncio.create_task(self._enforcer.prepare(assignment))
            self._preparing[key] = task
            task.add_done_callback(lambda _done: self._prepared(key, then))
        return False

    def told(self, key: AttemptKey, end: End, seen: Seen | None) -> End:
        """The end of a worker, with what its devices had to do with it."""
        held = self._held.pop(key, {})
        if seen is None or not seen.shares:
            return end
        self.hear()
        return self._enforcer.told(key, end, seen, held)

    async def close(self) -> None:
        """Leave. What workers need stays."""
        await end_tasks(list(self._preparing.values()))

    def _prepared(self, key: AttemptKey, then: Callable[[], None]) -> None:
        if not self._preparing.pop(key).cancelled():
            then()

    def _live(self) -> dict[AttemptKey, Seen]:
        """Who starts or runs here."""
        found = ((key, self._machine.look(key)) for key in self._machine.held())
        return {key: seen for key, seen in found if seen is not None and seen.end is None}

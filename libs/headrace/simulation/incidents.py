"""Makes the drawn faults happen.

Rule: a fault that finds nothing to break (a process that is down already) does nothing and is not
counted as fired.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from headrace.simulation.asking import Asked
from headrace.simulation.faults import Fault

if TYPE_CHECKING:
    from headrace.simulation.world import World

SILENCE_S = 12.0  # a little more than after which a node counts as silent
XID_LOST, XID_UPSET = 79, 94  # it has gone; only who used it is concerned
STEPS_US = {"hour": 3_600_000_000, "year": 365 * 86_400_000_000}
LEASE_S = 4.0  # a little more than a lease: then another leads


class Incidents:
    """One history's faults, at their times."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._asked = 0
        self._on: dict[str, Callable[[Fault], None]] = {
            "bus.client_disconnected": self._disconnect,
            "bus.wiped": self._wipe,
            "store.unavailable": self._condition,
            "store.commit_unknown": self._condition,
            "store.clock_stepped": self._step_clock,
            "service.crashed": self._crash,
            "service.taken_over": self._take_over,
            "service.leads_without_store": self._lead_without_store,
            "node.silent": self._silence,
            "node.rebooted": self._reboot,
            "node.launcher_lost": self._lose_launcher,
            "node.worker_killed": self._kill_worker,
            "node.fenced": self._fence,
            "agent.crashed": self._crash_agent,
            "device.lost": self._lose_device,
            "device.upset": self._upset_device,
            "node.out_of_touch": self._cut_off,
        }

    def schedule(self, faults: tuple[Fault, ...]) -> None:
        """Let each happen at its time."""
        for fault in faults:
            self._world.loop.call_at(fault.at_s, self._on.get(fault.kind, self._bad_bus), fault)

    def _fired(self, fault: Fault) -> None:
        self._world.fired[fault.kind] += 1
        self._world.tell(f"{fault.kind} {fault.target} {fault.point} for {fault.for_s:.1f} s")

    def _bad_bus(self, fault: Fault) -> None:
        self._world.weather.begin(fault.kind, fault.for_s)
        self._world.tell(f"{fault.kind} for {fault.for_s:.1f} s")

    def _condition(self, fault: Fault) -> None:
        self._world.weather.begin(f"{fault.kind}/{fault.target}", fault.for_s)
        self._world.tell(f"{fault.kind} for {fault.target}, {fault.for_s:.1f} s")

    def _disconnect(self, fault: Fault) -> None:
        world = self._world
        client = world.client_of(fault.target)
        if client:
            self._fired(fault)
            world.broker.disconnect(client)
            world.loop.call_later(fault.for_s, world.broker.connect, client)

    def _wipe(self, fault: Fault) -> None:
        self._fired(fault)
        self._world.broker.wipe()

    def _step_clock(self, fault: Fault) -> None:
        """Somebody sets the clock of the database forward, for good."""
        self._fired(fault)
        self._world.ahead_us += STEPS_US[fault.target]

    def _crash(self, fault: Fault) -> None:
        instance = self._world.leader_of(fault.target)
        if instance is not None:
            self._world.tell(f"{instance.holder} is to crash at {fault.point}")
            instance.crash_at(fault.point)

    def _take_over(self, fault: Fault) -> None:
        leader = self._world.leader_of(fault.target)
        if leader is not None:
            self._fired(fault)
            self._world.other(leader).start()
            leader.kill(for_s=fault.for_s + LEASE_S)

    def _lead_without_store(self, fault: Fault) -> None:
        """The leader keeps the bus and loses the store for longer than its lease."""
        leader = self._world.leader_of(fault.target)
        if leader is not None:
            self._fired(fault)
            self._world.other(leader).start()
            self._world.weather.begin(
                f"store.unavailable/{leader.holder}", max(fault.for_s, LEASE_S) + LEASE_S
            )

    def _silence(self, fault: Fault) -> None:
        """The agent is cut off for so long that placement calls its node silent."""
        self._disconnect(msgspec.structs.replace(fault, for_s=fault.for_s + SILENCE_S))

    def _cut_off(self, fault: Fault) -> None:
        """A machine, with whichever agent it has, reaches nobody until its leases have ended: the
        one on which most depends on that.
        """
        nodes = self._world.nodes
        runs_s = {name: node.machine.leased_s() for name, node in sorted(nodes.items())}
        longest = max(runs_s, key=lambda name: runs_s[name])
        name = longest if runs_s[longest] else fault.target
        self._fired(msgspec.structs.replace(fault, target=name))
        nodes[name].cut_off(fault.for_s)

    def _reboot(self, fault: Fault) -> None:
        node = self._world.nodes[fault.target]
        if node.machine.is_on:
            self._fired(fault)
            node.switch_off()
            self._world.loop.call_later(fault.for_s, node.switch_on)

    def _lose_launcher(self, fault: Fault) -> None:
        self._fired(fault)
        self._world.nodes[fault.target].machine.lose_launcher()

    def _kill_worker(self, fault: Fault) -> None:
        """The worker of the highest rank, on whichever node: a gang that grew goes on without it."""
        nodes = sorted(self._world.nodes.items())
        running = [(name, key) for name, node in nodes for key in node.machine.running()]
        if running:
            name, key = max(running, key=lambda one: one[1].rank)
            self._fired(msgspec.structs.replace(fault, target=name))
            self._world.nodes[name].machine.kill(key)

    def _fence(self, fault: Fault) -> None:
        node = self._world.nodes[fault.target]
        if node.machine.is_on:
            self._fired(fault)
            self._world.loop.create_task(self._fencing(fault.target))

    async def _fencing(self, name: str) -> None:
        """The machine is off; when it has been silent for long enough an operator says so, and
        lets it in again when it is back. It stays off until the fence is answered.
        """
        node = self._world.nodes[name]
        node.switch_off()
        await asyncio.sleep(SILENCE_S + 1.0)
        await self._change(name, "fence")
        node.switch_on()
        await self._change(name, "uncordon")

    async def _change(self, node: str, change: str) -> None:
        self._asked += 1
        await self._world.people.ask(
            Asked(
                at_s=0.0,
                verb="node.change",
                project="fleet",
                key=f"operator-{self._asked}-{change}",
                body={"node": node, "change": change},
                user="root",
            )
        )

    def _crash_agent(self, fault: Fault) -> None:
        node = self._world.nodes[fault.target]
        self._world.tell(f"the agent of {node.name} is to crash at {fault.point}")
        node.crash_at(fault.point)

    def _lose_device(self, fault: Fault) -> None:
        """A device fails; later an operator has mended it."""
        node = self._happens(fault, XID_LOST)
        if node:
            loop = self._world.loop
            loop.call_later(fault.for_s, lambda: loop.create_task(self._mended(node)))

    async def _mended(self, node: str) -> None:
        await self._change(node, "uncordon")

    def _upset_device(self, fault: Fault) -> None:
        self._happens(fault, XID_UPSET)

    def _happens(self, fault: Fault, code: int) -> str:
        """Something happens to a device that is used, on this node or else another; which node."""
        nodes = self._world.nodes
        for name in dict.fromkeys([fault.target, *nodes]):
            used = nodes[name].machine.used()
            if used:
                self._fired(msgspec.structs.replace(fault, target=name))
                nodes[name].machine.devices.happen(used[0], code)
                return name
        return ""

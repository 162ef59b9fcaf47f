"""Which nodes are heard: signals are never stored, only the conclusions are.

Rule: a new leader waits a whole silence before it calls anyone silent, and counts every lease from
its own start. Silence stops nothing; a node that the log calls silent, or is about to, gets no lease
before the log calls it heard.
"""

from __future__ import annotations

import asyncio

from headrace.events.nodes import NodeFilled, NodeHeard, NodeSilent
from headrace.placement.lease_rules import due_us
from headrace.placement.state import State
from headrace.runtime.service import Runtime

LOOK_S = 1.0  # how often silence is looked for


class Heartbeats:
    """When each node was last heard, by this process's own clock."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._loop = asyncio.get_running_loop()
        self._began_s = self._loop.time()
        self._heard_s: dict[str, float] = {}
        self._saying: dict[str, asyncio.Future[int]] = {}
        self._measuring: dict[str, asyncio.Future[int]] = {}

    def heard(self, node: str) -> None:
        """Something arrived from the node."""
        self._heard_s[node] = self._loop.time()
        machine = self._state.machines.get(node)
        if machine is not None and machine.silent:
            self._say(NodeHeard(node=node))

    def measured(self, node: str, disk_permille: int) -> None:
        """Its disk is so full now; the log need only know whether that is too full."""
        machine = self._state.machines.get(node)
        if machine is None:
            return
        limit = "disk_free_permille" if machine.too_full else "disk_full_permille"
        too_full = disk_permille >= self._state.setting(limit)
        if too_full != machine.too_full:
            fact = NodeFilled(node=node, used_permille=disk_permille, too_full=too_full)
            self._once(self._measuring, fact)

    async def watch(self) -> None:
        """Look for silent nodes for ever."""
        while True:
            await asyncio.sleep(LOOK_S)
            self.look()

    def look(self) -> None:
        """Record who has been silent too long."""
        silence_s = self._state.setting("silence_s")
        now_s = self._loop.time()
        for node, machine in self._state.machines.items():
            last_s = self._heard_s.get(node, self._began_s)
            silent_us = int((now_s - last_s) * 1_000_000)
            if machine.silent:
                if due_us(self._state, node, silent_us):
                    self._say(NodeSilent(node=node, silent_us=silent_us))
            elif now_s - last_s >= silence_s:
                self._say(NodeSilent(node=node, silent_us=silent_us))

    def may_renew(self, node: str) -> bool:
        """Whether what has just arrived from the node may renew its lease."""
        machine = self._state.machines.get(node)
        is_heard = machine is not None and not machine.silent and node not in self._saying
        return is_heard and self._runtime.holds_lease

    @property
    def _state(self) -> State:
        state: State = self._runtime.state
        return state

    def _say(self, fact: NodeHeard | NodeSilent) -> None:
        """Record it once: not again before it is in the log."""
        self._once(self._saying, fact)

    def _once(
        self,
        under_way: dict[str, asyncio.Future[int]],
        fact: NodeHeard | NodeSilent | NodeFilled,
    ) -> None:
        node = fact.node
        if node not in under_way:
            saying = under_way[node] = asyncio.ensure_future(self._runtime.record(fact))
            saying.add_done_callback(lambda _done: under_way.pop(node, None))

"""Which nodes are heard: signals are never stored, only the conclusions are.

Rule: a new leader waits a whole silence before it calls anyone silent. Silence stops nothing.
"""

from __future__ import annotations

import asyncio

from headrace.events.nodes import NodeHeard, NodeSilent
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

    def heard(self, node: str) -> None:
        """Something arrived from the node."""
        self._heard_s[node] = self._loop.time()
        machine = self._state.machines.get(node)
        if machine is not None and machine.silent:
            self._say(NodeHeard(node=node))

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
            if machine.silent or now_s - last_s < silence_s:
                continue
            silent_us = int((now_s - last_s) * 1_000_000)
            self._say(NodeSilent(node=node, silent_us=silent_us))

    @property
    def _state(self) -> State:
        state: State = self._runtime.state
        return state

    def _say(self, fact: NodeHeard | NodeSilent) -> None:
        """Record it once: not again before it is in the log."""
        node = fact.node
        if node not in self._saying:
            saying = asyncio.ensure_future(self._runtime.record(fact))
            self._saying[node] = saying
            saying.add_done_callback(lambda _done: self._saying.pop(node, None))

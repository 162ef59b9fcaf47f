"""Keeps the ruleset in force that the node's document asks for.

Rule: one change at a time, each of them the whole; what is asked for while one is made is the next.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import subprocess
from collections.abc import Callable, Iterable, Sequence

from headrace.bus.agents import Assignment
from headrace.node_agent.gang_network.rules import Part, is_known, part_of, parts_of, ruleset
from headrace.node_agent.tasks import end_tasks

AUTO, NONE = CHOICES = ("auto", "none")
NFT = ("nft", "-f", "-")
CHANGE_S_MAX = 10.0  # of one, until it has failed
SAID_MAX = 200  # characters of a complaint

_LOG = logging.getLogger("headrace.node_agent")


class GangNetwork:
    """One node's fence. `command` puts a ruleset in force; where there is none, nothing is fenced."""

    def __init__(self, name: str = "", command: Sequence[str] = ()) -> None:
        self._table, self._command = _table_of(name), command
        self._wanted: tuple[Part, ...] = ()
        self._tried: tuple[Part, ...] = ()
        self._held: frozenset[Part] = frozenset()  # of what was tried
        self._changing: asyncio.Task[None] | None = None
        self._waiting: list[Callable[[], None]] = []

    def follow(self, assignments: Iterable[Assignment]) -> None:
        """These are the workers that should be here now."""
        self._wanted = parts_of(assignments) if self._command else ()
        if self._changing is None and self._wanted != self._tried:
            self._changing = asyncio.create_task(self._change())

    def is_settled(self, assignment: Assignment, then: Callable[[], None]) -> bool:
        """Whether the worker may start; if not yet, `then` will be called."""
        part = part_of(assignment)
        if self._changing is None or part is None or part in self._tried:
            return True
        self._waiting.append(then)
        return False

    def holds(self, assignment: Assignment) -> bool:
        """Whether its ports are reached by its gang's nodes alone."""
        return part_of(assignment) in self._held

    def lack(self) -> str:
        """Why it cannot be; empty if it can, and nothing is fenced yet."""
        tried = Part(1, 1, ("localhost",))
        rules = ruleset(self._table, [tried], {"localhost": ("127.0.0.1", "::1")})
        return _complaint(self._command, rules + ruleset(self._table, [], {}))

    async def close(self) -> None:
        """Leave; what is in force stays so, as workers do."""
        await end_tasks([self._changing] if self._changing is not None else [])

    async def _change(self) -> None:
        while self._wanted != self._tried:
            wanted = self._wanted
            self._held = await asyncio.to_thread(self._put, wanted)
            self._tried = wanted
        self._changing = None
        waiting, self._waiting = self._waiting, []
        for then in waiting:
            then()

    def _put(self, parts: tuple[Part, ...]) -> frozenset[Part]:
        known = {peer: _addresses_of(peer) for part in parts for peer in part.peers}
        complaint = _complaint(self._command, ruleset(self._table, parts, known))
        if complaint:
            _LOG.warning("ports of gangs are open to everybody: %s", complaint)
            return frozenset()
        return frozenset(part for part in parts if is_known(part, known))


def probe(name: str, wanted: str = AUTO, prefix: Sequence[str] = ()) -> GangNetwork:
    """The fence of the node that this machine knows by this name, as far as the host allows one: for root,
    with nft. `prefix` goes before it.
    """
    network = GangNetwork(name, (*prefix, *NFT))
    lack = "the node's settings say so" if wanted == NONE else ""
    lack = lack or ("that takes root" if os.geteuid() else network.lack())
    if lack:
        _LOG.info("ports of gangs are open to everybody: %s", lack)
        return GangNetwork()
    return network


def remove(name: str, prefix: Sequence[str] = ()) -> None:
    """Take the fence of the node of this name away, if there is one: nobody listens behind it."""
    if os.geteuid() == 0:
        _complaint((*prefix, *NFT), ruleset(_table_of(name), [], {}))


def _table_of(name: str) -> str:
    return name.replace("-", "_")


def _addresses_of(peer: str) -> tuple[str, ...]:
    try:
        found = socket.getaddrinfo(peer, None, type=socket.SOCK_STREAM)
    except OSError:
        return ()
    return tuple(str(at[0]).partition("%")[0] for *_, at in found)


def _complaint(command: Sequence[str], rules: str) -> str:
    """What went wrong, in a line; empty when the rules are in force."""
    try:
        done = subprocess.run(
            command,
            input=rules.encode(),
            capture_output=True,
            timeout=CHANGE_S_MAX,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{command[0]}: {getattr(error, 'strerror', None) or 'did not end'}"
    said = done.stderr.decode(errors="replace").strip().partition("\n")[0]
    return (said or f"nft: exit code {done.returncode}")[:SAID_MAX] if done.returncode else ""

"""What a thousand idle agents say: `python -m tests.bench.gateway.fleet URL ACCOUNT_SEED`.

Rule: each node's heartbeat and pull come as often as an agent sends them, spread over the interval.
Nothing is started here: what runs was started before, and nothing else finds a free GPU.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import uvloop
from tests.bench.gateway.history import GPUS, INCARNATION, NODES, node_name

from headrace.bus import subjects
from headrace.bus.agents import Pull, Signal
from headrace.bus.credentials import Permissions, new_creds
from headrace.bus.interface import BusError
from headrace.bus.nats import NatsBus
from headrace.node_agent.agent import PULL_S
from headrace.node_agent.heartbeats import SIGNAL_S


async def run(url: str, account_seed: str) -> None:
    """Speak for every node, until the process is ended."""
    allowed = Permissions(publish=(subjects.AGENTS_UP,), subscribe=("_INBOX_fleet.>",))
    creds = new_creds(account_seed, "fleet", allowed)
    bus = await NatsBus.connect(url, creds_text=creds, inbox_prefix="_INBOX_fleet")
    await asyncio.gather(_each(SIGNAL_S, _beat(bus)), _each(PULL_S, _pull(bus)))


async def _each(every_s: float, say: Callable[[int], Awaitable[None]]) -> None:
    """Speak for one node after the other, for each of them so often."""
    now = asyncio.get_running_loop().time
    began_s = now()
    for turn in itertools.count():
        with contextlib.suppress(BusError):
            await say(turn % NODES)
        due_s = began_s + turn * every_s / NODES
        if due_s > now():
            await asyncio.sleep(due_s - now())


def _beat(bus: NatsBus) -> Callable[[int], Awaitable[None]]:
    said = [_signal(number) for number in range(NODES)]
    return lambda n: bus.publish(subjects.agent_up(node_name(n), "signal"), said[n])


def _pull(bus: NatsBus) -> Callable[[int], Awaitable[None]]:
    async def pull(number: int) -> None:
        subject = subjects.agent_up(node_name(number), "pull")
        await bus.request(subject, msgspec.json.encode(Pull(sent_ns=1)))

    return pull


def _signal(number: int) -> bytes:
    samples = tuple((f"GPU-{number}-{index}", 900, 60_000_000_000) for index in range(GPUS))
    said = Signal(
        node=node_name(number), incarnation=INCARNATION, samples=samples, disk_permille=300
    )
    return msgspec.json.encode(said)


if __name__ == "__main__":
    uvloop.run(run(sys.argv[1], Path(sys.argv[2]).read_text(encoding="ascii")))

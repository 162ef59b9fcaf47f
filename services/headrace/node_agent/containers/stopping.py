"""Ends containers without the agent: the operator's last word.

Rule: it works without the engine too, whose containers are then left for the next agent to remove:
nothing runs in them any more.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from pathlib import Path

from headrace.node_agent import folders
from headrace.node_agent.containers import plan, record
from headrace.node_agent.containers.engine import Away, Denied, Engine
from headrace.node_agent.machine import AttemptKey
from headrace.node_agent.supervision import kernel, tree
from headrace.node_agent.supervision.processes import signal_of
from headrace.node_agent.supervision.protocol import CHECKPOINT_GRACE_S_MAX, DOWN, STOP_REASON

LOOK_S = 0.05


async def end_all(
    node_dir: Path, attempts: list[tuple[AttemptKey, Path]], *, grace_s: float
) -> None:
    """End these; returns when no process of theirs is left."""
    await asyncio.gather(*(_end(node_dir, key, folder, grace_s) for key, folder in attempts))


async def _end(node_dir: Path, key: AttemptKey, folder: Path, grace_s: float) -> None:
    intent, kept = folders.read_intent(folder), record.kept_in(folder)
    if intent is not None:
        with contextlib.suppress(OSError):
            kernel.write(str(folder / STOP_REASON), DOWN.encode())
        firsts = intent.pids if kept.init else []
        marked = tree.of_attempt(intent.marker, [], [])
        asked = [pid for pid in marked if pid not in firsts]
        if by := intent.checkpoint_signal:
            tree.ask(asked, signal_of(by))
            grace_s = min(intent.checkpoint_grace_s, CHECKPOINT_GRACE_S_MAX)
        else:
            tree.send(asked, signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                while tree.of_attempt(intent.marker, [], []):  # noqa: ASYNC110  /proc tells nobody
                    await asyncio.sleep(LOOK_S)
    await _remove(kept.engine, plan.name_of(node_dir, key))
    if intent is not None:
        await asyncio.to_thread(tree.sweep, intent.marker, [], [])
    exit_ = folders.Exit(
        reason="stopped",
        message=f"stopped: {DOWN}",
        started_at_us=intent.at_us if intent is not None else 0,
        ended_at_us=kernel.now_us(),
    )
    await record.ending(folder, exit_)
    record.ended(folder)


async def _remove(address: str, name: str) -> None:
    if address:
        engine = Engine(address)
        with contextlib.suppress(Away, Denied):
            await engine.remove(name)
        await engine.close()

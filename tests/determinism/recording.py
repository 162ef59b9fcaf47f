"""Logs to derive again: simulated histories, kept in a file as the bytes they are.

Rule: a file holds whole histories, each from its first event, in the order of their seeds.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from headrace.events import CATALOGUE, Decision
from headrace.simulation.loop import run
from headrace.simulation.surroundings import seeded
from headrace.simulation.world import World
from headrace.store.interface import Stored

SEEDS_AT_ONCE = 4  # drawn together, on as many processes as there are cores
SEEDS_MAX = 1_000  # histories of a handful of decisions would go on for ever
DECISIONS = frozenset(tag for tag, event in CATALOGUE.items() if issubclass(event, Decision))

History = list[Stored]
_FILE = msgspec.msgpack.Decoder(list[list[Stored]])


def record(decisions_min: int) -> list[History]:
    """Histories of the first seeds that together hold so many decisions."""
    histories: list[History] = []
    decisions = 0
    with multiprocessing.get_context("spawn").Pool(_cores(), _quiet) as pool:
        for history in pool.imap(history_of, range(SEEDS_MAX), SEEDS_AT_ONCE):
            histories.append(history)
            decisions += len(list(decided(history)))
            if decisions >= decisions_min:
                break
    return histories


def history_of(seed: int) -> History:
    """Everything the log holds at the end of this seed's history."""
    with tempfile.TemporaryDirectory(prefix="headrace-determinism-") as disk:
        world = World(seed, Path(disk), lambda _host: None)
        with seeded(seed, world.loop.time):
            run(world.live(), world.loop)
    return list(world.log.events)


def decided(history: Iterable[Stored]) -> Iterator[Stored]:
    """The decisions among the events."""
    return (stored for stored in history if stored.type in DECISIONS)


def write(path: Path, histories: list[History]) -> None:
    """Keep the histories."""
    path.write_bytes(msgspec.msgpack.encode(histories))


def read(path: Path) -> list[History]:
    """What was kept."""
    return _FILE.decode(path.read_bytes())


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _quiet() -> None:
    logging.disable(logging.CRITICAL)

"""Carries a container's output from the engine into the attempt's file, each byte once.

Rule: the engine keeps output while nobody takes it; how far it was taken is written after the bytes
are. Who goes on from there cuts off what was written beyond it and asks again from that moment on, so
offsets that a reader has seen stay true.
"""

from __future__ import annotations

import asyncio
import calendar
import contextlib
import os
import time
from pathlib import Path

from headrace.node_agent.containers.engine import Away, Engine, Gone
from headrace.node_agent.supervision import kernel
from headrace.node_agent.supervision.output import Output

POSITION = "output-position"
PAUSE_S = 0.02  # between two batches: what is written in a rush is read at leisure
AGAIN_S = 0.5  # before the engine is asked again that did not answer
TRIM_EVERY_BYTES = 16_777_216
RECENT_MAX = 1_024
_NEVER = b"1970-01-01T00:00:00.000000000Z"

Piece = tuple[bytes, bytes]  # its moment as the engine writes it, and what was written


class Carried:
    """How far the output of one container has been taken: how many pieces since a moment, in the
    engine's order, and the size of the file then. Pieces of two streams may come a little out of the
    order of their moments; so it counts from a moment `RECENT_MAX` pieces back.
    """

    def __init__(self, folder: Path, bytes_max: int) -> None:
        self._path = str(folder / POSITION)
        self._output = Output(bytes_max, str(folder))
        self._file = self._output.of(0)
        self.since, self.count, size = self._read()
        self._recent: list[bytes] = []
        self._untrimmed = 0
        if size >= 0:
            self._cut_back_to(size)

    def say(self, line: str) -> None:
        """A line of Headrace's own, before there is anything of the container's."""
        with contextlib.suppress(OSError):
            os.write(self._file, line.encode() + b"\n")

    def take(self, pieces: list[Piece]) -> None:
        """Write the next pieces, then how far that is. A full disk loses output, not the attempt."""
        data = b"".join(piece for _, piece in pieces)
        self._untrimmed += len(data)
        with contextlib.suppress(OSError):
            while data:
                data = data[os.write(self._file, data) :]
        self._count(pieces)
        with contextlib.suppress(OSError):
            size = os.fstat(self._file).st_size
            line = f"{self.since.decode()} {self.count:020} {size:020}\n"
            kernel.write(self._path, line.encode(), flags=0)
        if self._untrimmed > TRIM_EVERY_BYTES:
            self._untrimmed = 0
            self._output.trim()

    def close(self) -> None:
        """Nothing more is written."""
        self._output.trim()
        self._output.close()

    def _count(self, pieces: list[Piece]) -> None:
        self._recent += [at for at, _ in pieces]
        self.count += sum(at >= self.since for at, _ in pieces)
        if len(self._recent) >= RECENT_MAX:
            self.since, self.count, self._recent = min(self._recent), len(self._recent), []

    def _cut_back_to(self, size: int) -> None:
        if os.fstat(self._file).st_size > size:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, size)

    def _read(self) -> tuple[bytes, int, int]:
        try:
            at, count, size = kernel.read(self._path, 256).split()
            return at, int(count), int(size)
        except (OSError, ValueError):
            return _NEVER, 0, -1


async def carry(engine: Engine, name: str, carried: Carried) -> None:
    """Carry until the container has ended and all it wrote is here, or it is gone."""
    while True:
        known = carried.count
        try:
            async for pieces in engine.output(name, since_of(carried.since)):
                new, known = pieces[known:], max(0, known - len(pieces))
                if new:
                    carried.take(new)
                await asyncio.sleep(PAUSE_S)
            if not (await engine.state(name)).running:
                return
        except Gone:
            return
        except Away:
            pass
        await asyncio.sleep(AGAIN_S)


def since_of(at: bytes) -> str:
    """`2026-11-21T16:14:43.941731492Z` as `seconds.nanoseconds` of Unix time."""
    whole, _, nanoseconds = at.decode().rstrip("Z").partition(".")
    seconds = calendar.timegm(time.strptime(whole, "%Y-%m-%dT%H:%M:%S"))
    return f"{seconds}.{nanoseconds.ljust(9, '0')}"

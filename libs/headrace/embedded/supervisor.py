"""Keeps units alive: starts them, sees them end, starts them again, for as long as it takes.

Rule: a unit's end is an event like any other: one line in the log, a pause that doubles, a new
start. Nothing is given up, because what is missing may come back.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import time
from collections.abc import Iterable
from pathlib import Path

from headrace.embedded import EmbeddedError, processes
from headrace.embedded.layout import Layout
from headrace.embedded.processes import Process
from headrace.embedded.units import Record, Unit, write_record

BACKOFF_S_MIN = 0.1
BACKOFF_S_MAX = 5.0
BACKOFF_RESET_S = 30.0  # having run this long, a unit starts again at the shortest pause
READY_POLL_S = 0.02
LOG_BYTES_MAX = 8 * 1024**2  # one log file and one older one per unit
FILES_CHECK_S = 30.0
END_S_MAX = 5.0  # for a unit whose files are gone or could not be written
REFUSED = 78  # EX_CONFIG: an agent whose node was deleted; starting it again changes nothing

_LOG = logging.getLogger("headrace.up")


class Supervisor:
    """Keeps units alive until `close`. All methods are called on its event loop."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self.closing = asyncio.Event()
        self._keeping: dict[str, asyncio.Task[None]] = {}
        self._running: dict[str, Process] = {}
        self._unwritten: dict[str, Record] = {}  # there was no room on the disk

    def keep(self, unit: Unit) -> None:
        """Start the unit now and again whenever it ends."""
        self._keeping[unit.name] = asyncio.create_task(self._keep(unit))

    async def ready(self, units: Iterable[Unit]) -> None:
        """Wait until each of them is ready, or until `closing`."""
        for unit in units:
            while not self.closing.is_set() and not await asyncio.to_thread(unit.ready):
                await self._pause(READY_POLL_S)

    async def close(self) -> None:
        """Keep nothing any more; returns when every unit has ended. Ending them is up to others, who go by
        their records: only those without one are ended here.
        """
        self.closing.set()
        await self._end(self._unwritten)
        await asyncio.gather(*self._keeping.values())

    async def end(self) -> None:
        """Keep nothing any more, and end every unit by what is known here: its records are gone."""
        self.closing.set()
        await self._end(self._running)

    async def watch_files(self) -> None:
        """Keep every log file below its limit, and write the records for which there was no room."""
        while not self.closing.is_set():
            for log in self._layout.logs.glob("*.log"):
                shorten(log)
            for record in list(self._unwritten.values()):
                self._write(record)
            await self._pause(FILES_CHECK_S)

    async def _end(self, names: Iterable[str]) -> None:
        ending = (
            asyncio.to_thread(processes.end, self._running[name], (signal.SIGTERM, END_S_MAX))
            for name in names
        )
        await asyncio.gather(*ending)

    async def _keep(self, unit: Unit) -> None:
        record = Record(name=unit.name)
        pause_s = BACKOFF_S_MIN
        while not self.closing.is_set():
            began = time.monotonic()
            said, status = await self._run_once(unit, record)
            if self.closing.is_set():
                return
            if status == REFUSED:
                _LOG.error("%s is not started again: it was refused", unit.name)
                return
            if time.monotonic() - began >= BACKOFF_RESET_S:
                pause_s = BACKOFF_S_MIN
            _LOG.warning("%s %s again_in_s=%.1f", unit.name, said, pause_s)
            await self._pause(pause_s)
            pause_s = min(pause_s * 2, BACKOFF_S_MAX)
            record.restarts += 1

    async def _run_once(self, unit: Unit, record: Record) -> tuple[str, int | None]:
        """Start it and see it end; what happened, in words for the log, and its exit status."""
        try:
            process = await asyncio.to_thread(unit.start)
        except (EmbeddedError, OSError) as error:
            return f"did not start error={error}", None
        record.process = self._running[unit.name] = process
        self._write(record)
        if self.closing.is_set():
            await asyncio.to_thread(unit.stop)
            await self._end(self._unwritten.keys() & {unit.name})
        await ended(process)
        status = processes.reap(process)
        return f"ended {process} status={'unknown' if status is None else status}", status

    def _write(self, record: Record) -> None:
        """Keep the record. A full disk ends no unit: it is written once there is room."""
        try:
            write_record(self._layout, record)
        except OSError as error:
            self._unwritten[record.name] = record
            _LOG.warning("%s is not on record yet error=%s", record.name, error.strerror)
        else:
            self._unwritten.pop(record.name, None)

    async def _pause(self, pause_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await self.closing.wait()


async def ended(process: Process) -> None:
    """Wait until the process has ended, without polling."""
    descriptor = processes.open_pidfd(process)
    if descriptor is None:
        return
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()

    def seen() -> None:
        loop.remove_reader(descriptor)
        if not future.done():
            future.set_result(None)

    loop.add_reader(descriptor, seen)
    try:
        await future
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def shorten(log: Path) -> None:
    """Move what a too long log holds to `<log>.1`. Its writer, which appends, goes on writing."""
    with contextlib.suppress(OSError):
        if log.stat().st_size > LOG_BYTES_MAX:
            shutil.copyfile(log, log.with_suffix(".log.1"))
            with log.open("r+b") as file:
                file.truncate(0)

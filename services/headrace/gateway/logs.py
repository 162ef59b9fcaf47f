"""Output of workers, fetched from the agents of the nodes where they ran.

Rule: the bytes stay on the node; a reader has an offset per process and may go on from there with
another connection.
"""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

import msgspec

from headrace.bus import subjects
from headrace.bus.agents import LogsChunk, LogsWanted
from headrace.bus.interface import Bus, BusError
from headrace.client.model import ENDED, LogPiece
from headrace.events.gangs import Worker
from headrace.gateway.follower import Follower
from headrace.gateway.projection import Job

HOLD_S = 5.0  # how long an agent may hold an answer until there is more
REPLY_S_MAX = HOLD_S + 3.0
TRIES_MAX = 3  # of a node that does not answer, once the attempt is over
RETRY_S = 0.5
PIECES_WAITING_MAX = 64  # read and not yet sent

_CHUNKS = msgspec.json.Decoder(LogsChunk)

Offsets = Mapping[tuple[int, int, int], int]
"""Where to go on, by attempt, rank and process."""


@dataclass(kw_only=True)
class LogQuery:
    """Which output of one job is wanted. None: every rank, every process, the latest attempt (with
    `follow`: that and all that come).
    """

    job: str
    rank: int | None = None
    process: int | None = None
    attempt: int | None = None
    follow: bool = False
    offsets: Offsets = field(default_factory=dict)
    role: str = ""  # any
    tail_bytes: int = 0  # of each process, only so much before its end; 0: all


@dataclass(frozen=True, kw_only=True)
class _Source:
    attempt: int
    worker: Worker
    process: int


class LogStreams:
    """Reads output through the agents."""

    def __init__(self, bus: Bus, follower: Follower) -> None:
        self._bus = bus
        self._follower = follower

    async def pieces(
        self, query: LogQuery, job: Job, workers: Mapping[int, tuple[Worker, ...]]
    ) -> AsyncIterator[LogPiece | None]:
        """The output, in order per process; None while there is nothing to say. `workers` are those
        of each known attempt.
        """
        attempt = query.attempt or (max(workers) if workers else 0)
        if attempt:
            async for piece in self._attempt(query, job, attempt, workers.get(attempt, ())):
                yield piece
        while query.follow and query.attempt is None and not self._follower.closing:
            now = self._follower.projection.job(query.job)
            if now is None or (now.attempt <= attempt and now.state in ENDED):
                return
            if now.attempt > attempt:
                attempt = now.attempt
                async for piece in self._attempt(query, now, attempt, now.workers):
                    yield piece
            elif not await self._follower.changed(HOLD_S):
                yield None

    async def _attempt(
        self, query: LogQuery, job: Job, attempt: int, workers: tuple[Worker, ...]
    ) -> AsyncIterator[LogPiece]:
        """All processes of one attempt at once."""
        pieces: asyncio.Queue[LogPiece | None] = asyncio.Queue(PIECES_WAITING_MAX)
        readers = [
            asyncio.create_task(self._process(query, source, pieces))
            for source in _sources(query, job, attempt, workers)
        ]
        left = len(readers)
        try:
            while left:
                piece = await pieces.get()
                if piece is None:
                    left -= 1
                else:
                    yield piece
        finally:
            for reader in readers:
                reader.cancel()

    async def _process(
        self, query: LogQuery, source: _Source, pieces: asyncio.Queue[LogPiece | None]
    ) -> None:
        """Read one process to its end, or to the end of what there is."""
        where = (source.attempt, source.worker.rank, source.process)
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        offset, silent = query.offsets.get(where, -query.tail_bytes), 0
        try:
            while not self._follower.closing:
                chunk = await self._chunk(query, source, offset)
                if not chunk.missing:
                    silent = 0
                    offset = chunk.offset + len(chunk.data)
                    await pieces.put(_piece(source, chunk, offset, decoder))
                    if chunk.ended or (not chunk.data and not query.follow):
                        return
                    continue
                silent += 1
                if self._is_over(query, source) and silent >= TRIES_MAX:
                    await pieces.put(_missing(source, offset, chunk.missing))
                    return
                await self._follower.changed(RETRY_S)
        finally:
            task = asyncio.current_task()
            if task is None or not task.cancelling():  # else nobody reads any more
                await pieces.put(None)

    async def _chunk(self, query: LogQuery, source: _Source, offset: int) -> LogsChunk:
        wanted = LogsWanted(
            job=query.job,
            attempt=source.attempt,
            rank=source.worker.rank,
            process=source.process,
            offset=offset,
            wait_s=HOLD_S if query.follow else 0.0,
        )
        subject = subjects.agent_down(source.worker.node, "logs")
        try:
            reply = await self._bus.request(
                subject, msgspec.json.encode(wanted), timeout_s=REPLY_S_MAX
            )
            return _CHUNKS.decode(reply.data)
        except BusError:
            return LogsChunk(offset=offset, missing=f"node {source.worker.node} does not answer")
        except msgspec.DecodeError as error:
            return LogsChunk(offset=offset, missing=f"node {source.worker.node}: {error}")

    def _is_over(self, query: LogQuery, source: _Source) -> bool:
        """Whether nothing more can come of this attempt: what is missing stays so."""
        job = self._follower.projection.job(query.job)
        if not query.follow or job is None or job.state in ENDED:
            return True
        return job.attempt > source.attempt


def parse_offsets(text: str) -> Offsets:
    """`attempt.rank.process.offset,…` as clients send it. Raises `ValueError`."""
    offsets: dict[tuple[int, int, int], int] = {}
    for part in filter(None, text.split(",")):
        attempt, rank, process, offset = (int(number) for number in part.split("."))
        offsets[attempt, rank, process] = max(0, offset)
    return offsets


def _sources(query: LogQuery, job: Job, attempt: int, workers: tuple[Worker, ...]) -> list[_Source]:
    return [
        _Source(attempt=attempt, worker=worker, process=process)
        for worker in workers
        for process in range(_processes(job, worker))
        if query.rank in (None, worker.rank) and query.process in (None, process)
        if query.role in ("", worker.role)
    ]


def _processes(job: Job, worker: Worker) -> int:
    asked = job.gang.by_role().get(worker.role, job.gang)
    return max(1, len(worker.devices)) if asked.per_gpu_processes else 1


def _piece(
    source: _Source, chunk: LogsChunk, offset: int, decoder: codecs.IncrementalDecoder
) -> LogPiece:
    return LogPiece(
        attempt=source.attempt,
        rank=source.worker.rank,
        process=source.process,
        node=source.worker.node,
        offset=offset,
        text=decoder.decode(chunk.data, final=chunk.ended),
        ended=chunk.ended,
        role=source.worker.role,
    )


def _missing(source: _Source, offset: int, missing: str) -> LogPiece:
    return LogPiece(
        attempt=source.attempt,
        rank=source.worker.rank,
        process=source.process,
        node=source.worker.node,
        offset=offset,
        ended=True,
        missing=missing,
        role=source.worker.role,
    )

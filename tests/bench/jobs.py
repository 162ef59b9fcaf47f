"""Jobs of `true`, one GPU each, from a publisher on the bus to their outcome on the bus."""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import Any

import msgspec
from tests.bench.platform import Platform

from headrace.bus.interface import Message
from headrace.bus.nats import NatsBus
from headrace.bus.subjects import LOG, publisher_inbox, request, service_inbox
from headrace.runtime import log_messages

LATENCY_JOBS = 100
SPACED_JOBS = 20
THROUGHPUT_JOBS = 2_000
ARRAY_TASKS = 300
IN_FLIGHT = 64
ENDS_S_MAX = 120
JOB_FIELDS = {"name": "t", "project": "default", "command": ["true"], "resources": {"gpus": 1}}
JOB = msgspec.json.encode(JOB_FIELDS)
ARRAY = msgspec.json.encode({**JOB_FIELDS, "array": f"0..{ARRAY_TASKS - 1}"})

Row = tuple[str, str, str]


class Publisher:
    """Submits jobs and knows when each one's outcome was heard."""

    def __init__(self, bus: NatsBus) -> None:
        self._bus = bus
        self._ended: dict[str, float] = {}
        self._waiting: dict[str, asyncio.Future[float]] = {}

    async def listen(self) -> None:
        await self._bus.subscribe("headrace.event.default.job.finished.v1", self._finished)

    async def submit(self, key: str, job: bytes = JOB) -> str:
        headers = {
            "ce-id": key,
            "ce-type": "headrace.job.submit.v1",
            "ce-source": "/bench",
            "ce-specversion": "1.0",
        }
        answer = await self._bus.request(
            request("default", "bench", "job.submit"), job, headers, 30.0
        )
        said: dict[str, Any] = msgspec.json.decode(answer.data)
        if not said["accepted"]:
            raise SystemExit(said["message"])
        return str(said["job"])

    async def end_of(self, job: str) -> float:
        """When the outcome of the job was heard, by this process's monotonic clock."""
        if job not in self._ended:
            self._waiting[job] = asyncio.get_running_loop().create_future()
            await asyncio.wait_for(self._waiting[job], ENDS_S_MAX)
        return self._ended[job]

    async def _finished(self, message: Message) -> None:
        job = msgspec.json.decode(message.data)["job"]
        self._ended[job] = time.monotonic()
        if (waiting := self._waiting.pop(job, None)) is not None:
            waiting.set_result(self._ended[job])


class Listener:
    """Another process than the one that appends: how long each event of the log takes to it."""

    def __init__(self) -> None:
        self.taken_ms: list[float] = []

    async def hear(self, message: Message) -> None:
        now_ms = time.time_ns() / 1e6
        for event in log_messages.decode(message.data):
            self.taken_ms.append(now_ms - event.recorded_at_us / 1e3)  # before the commit


async def measure(platform: Platform) -> list[Row]:
    """Latency on an idle platform, then throughput."""
    bus = await NatsBus.connect(
        platform.nats_url(),
        creds_path=platform.publisher(),
        inbox_prefix=publisher_inbox("default", "bench"),
    )
    publisher = Publisher(bus)
    await publisher.listen()
    run = f"{time.time_ns():x}"
    latencies_ms, heard_ms = await _latencies(platform, publisher, run)
    spaced_ms = []
    for number in range(SPACED_JOBS):
        await asyncio.sleep(1)
        spaced_ms.append(await _one(publisher, f"{run}-s{number}"))
    began = time.monotonic()
    jobs = await _submit_all(publisher, run)
    submitted_s = time.monotonic() - began
    ends = [await publisher.end_of(job) for job in jobs]
    rate = THROUGHPUT_JOBS / (max(ends) - began)
    began = time.monotonic()
    array = await publisher.submit(f"{run}-array", ARRAY)
    array_rate = ARRAY_TASKS / (await publisher.end_of(array) - began)
    await bus.close()
    heard = f"{statistics.median(heard_ms):.1f} ms"
    of_many = f"{THROUGHPUT_JOBS} jobs of `true`, 1 GPU each, end to end"
    return [
        ("event appended → heard by another process, p50", heard, "≤ 1.5 ms"),
        (
            "`true`, submitted → outcome heard, idle: p50, p99",
            _spread(latencies_ms),
            "≤ 30, ≤ 80 ms",
        ),
        ("  one every second: p50, p99", _spread(spaced_ms), "≤ 30, ≤ 80 ms"),
        (of_many, f"{rate:.0f} jobs/s", "≥ 4 × Slurm"),
        ("  of which submitting", f"{THROUGHPUT_JOBS / submitted_s:.0f} jobs/s", ""),
        (f"array of {ARRAY_TASKS} × `true`", f"{array_rate:.0f} jobs/s", "≥ 4 × Slurm"),
    ]


def _spread(taken_ms: list[float]) -> str:
    p99 = sorted(taken_ms)[max(0, int(len(taken_ms) * 0.99) - 1)]
    return f"{statistics.median(taken_ms):.0f}, {p99:.0f} ms"


async def _latencies(
    platform: Platform, publisher: Publisher, run: str
) -> tuple[list[float], list[float]]:
    """Milliseconds of one job after the other, and of each of their events to a listener."""
    for warm in range(5):
        await _one(publisher, f"{run}-warm-{warm}")
    creds = platform.service_creds("metrics")
    bus = await NatsBus.connect(
        platform.nats_url(), creds_path=creds, inbox_prefix=service_inbox("metrics")
    )
    listener = Listener()
    await bus.subscribe(LOG, listener.hear)
    latencies_ms = [await _one(publisher, f"{run}-{n}") for n in range(LATENCY_JOBS)]
    await bus.close()
    return latencies_ms, listener.taken_ms


async def _one(publisher: Publisher, key: str) -> float:
    began = time.monotonic()
    ended = await publisher.end_of(await publisher.submit(key))
    await asyncio.sleep(0.02)  # idle again
    return (ended - began) * 1000


async def _submit_all(publisher: Publisher, run: str) -> list[str]:
    room = asyncio.Semaphore(IN_FLIGHT)

    async def one(number: int) -> str:
        async with room:
            return await publisher.submit(f"{run}-t{number}")

    return await asyncio.gather(*(one(n) for n in range(THROUGHPUT_JOBS)))

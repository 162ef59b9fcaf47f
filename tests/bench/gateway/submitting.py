"""Jobs submitted over REST at a steady rate, more than are taken, and while admission is killed."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections.abc import Callable
from typing import NamedTuple, cast
from urllib.parse import urlsplit

import msgspec
import psutil
import uvloop
from tests.bench.agent import cpu_s
from tests.bench.gateway.populated import pids_of
from tests.bench.printing import row

from headrace.client.connection import JITTER, RETRY_S
from headrace.embedded import processes
from headrace.testing.running import RunningPlatform

PER_S = 500
STEADY_S, TWICE_S, KILLED_S = 20, 2, 5
CONNECTIONS = 320  # more than there is room for
ALSO_AFTER_S = 2
LEAST_MS = 0.05  # of a process that is named
BODY = msgspec.json.encode(
    {"name": "t", "project": "default", "command": ["true"], "resources": {"gpus": "H100:1"}}
)  # all of them are in use: the jobs wait


class Taken(NamedTuple):
    """One submission that was answered with 201. `ms` counts from when the try was due that was
    taken: at its time, or when an earlier try was told to come again.
    """

    job: str
    position: int
    ms: float


class Line(asyncio.Protocol):
    """One connection, with one request on it at a time."""

    def __init__(self) -> None:
        self._come = bytearray()
        self._answer: asyncio.Future[tuple[str, bytes]] | None = None
        self._to: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._to = cast(asyncio.Transport, transport)

    def ask(self, request: bytes) -> asyncio.Future[tuple[str, bytes]]:
        """The answer's head and body."""
        self._answer = asyncio.get_running_loop().create_future()
        self._to.write(request)
        return self._answer

    def data_received(self, data: bytes) -> None:
        self._come += data
        head, found, body = self._come.partition(b"\r\n\r\n")
        text = head.decode().lower()
        if found and self._answer and len(body) == int(_header(text, "content-length")):
            self._come = bytearray()
            self._answer.set_result((text, bytes(body)))

    def connection_lost(self, error: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionError(f"the gateway hung up: {error}"))

    def close(self) -> None:
        self._to.close()


class Submitter:
    """Submissions when they are due, whatever became of the earlier ones."""

    def __init__(self, url: str, token: str) -> None:
        at = urlsplit(url)
        self._host, self._port = at.hostname, at.port
        self._head = (
            f"POST /v1/jobs HTTP/1.1\r\nHost: {at.netloc}\r\nAuthorization: Bearer {token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(BODY)}\r\n"
        )
        self.again: dict[int, int] = {}  # answers that said to come again, by status
        self.cpu_ms = 0.0  # that a submission cost here
        self.lasted_s = 0.0

    def submit(self, name: str, per_s: int, seconds: int, also: Callable[[], None]) -> list[Taken]:
        """That many a second; all of them, once each is answered with 201. `also` is called after
        `ALSO_AFTER_S`.
        """
        before_s = time.process_time()
        taken = uvloop.run(self._run(name, per_s, seconds, also))
        self.cpu_ms = (time.process_time() - before_s) / len(taken) * 1000
        return taken

    async def _run(
        self, name: str, per_s: int, seconds: int, also: Callable[[], None]
    ) -> list[Taken]:
        loop, sending = asyncio.get_running_loop(), []
        self._free: asyncio.Queue[Line] = asyncio.Queue()
        for _ in range(CONNECTIONS):
            _, line = await loop.create_connection(Line, self._host, self._port)
            self._free.put_nowait(line)
        self.again = {}
        began = loop.time()
        loop.call_later(ALSO_AFTER_S, also)
        for number in range(per_s * seconds):
            due = began + number / per_s
            if due > loop.time():
                await asyncio.sleep(due - loop.time())
            sending.append(asyncio.create_task(self._one(f"{name}-{number}", due)))
        taken = await asyncio.gather(*sending)
        self.lasted_s = loop.time() - began
        while not self._free.empty():
            self._free.get_nowait().close()
        return taken

    async def _one(self, key: str, due: float) -> Taken:
        request = f"{self._head}Idempotency-Key: {key}\r\n\r\n".encode() + BODY
        now = asyncio.get_running_loop().time
        while True:
            line = await self._free.get()
            head, body = await line.ask(request)
            self._free.put_nowait(line)
            code = int(head.split(" ", 2)[1])
            answer = msgspec.json.decode(body)
            if code == 201:
                return Taken(answer["job"], answer["position"], (now() - due) * 1000)
            if code not in (429, 503, 504):
                raise SystemExit(f"HTTP {code}: {answer}")
            self.again[code] = self.again.get(code, 0) + 1
            after_s = float(_header(head, "retry-after") or RETRY_S)
            due = now() + after_s * random.uniform(1, 1 + JITTER)  # as the client that users have
            await asyncio.sleep(due - now())


def _header(head: str, name: str) -> str:
    return head.partition(f"\r\n{name}: ")[2].partition("\r\n")[0]


def measure(platform: RunningPlatform) -> None:
    """The rate that is promised, twice the rate, and the rate with admission killed."""
    pids = pids_of(platform)
    submitter = Submitter(platform.url, platform.token)
    submitter.submit("warm", 50, 1, _nothing)
    before = _used_s(pids)
    taken = submitter.submit("steady", PER_S, STEADY_S, _nothing)
    used_ms = {n: (s - before[n]) / len(taken) * 1000 for n, s in _used_s(pids).items()}
    each = ", ".join(f"{name} {ms:.2f}" for name, ms in used_ms.items() if ms >= LEAST_MS)
    _row(f"{PER_S} submits/s over REST for {STEADY_S} s, p99", taken, submitter)
    row("  of a core, each", f"{sum(used_ms.values()):.2f} ms", f"({each})")
    row("  of a core, who submits", f"{submitter.cpu_ms:.2f} ms", "")
    taken = submitter.submit("twice", 2 * PER_S, TWICE_S, _nothing)
    _row(f"{2 * PER_S} submits/s, p99 of those taken", taken, submitter)
    row("  all of them taken after", f"{submitter.lasted_s:.1f} s", "")
    admission = _process(pids["admission"])
    taken = submitter.submit(
        "killed", PER_S, KILLED_S, lambda: processes.send(admission, signal.SIGKILL)
    )
    _row(f"{PER_S} submits/s with admission killed, p99", taken, submitter)
    row("  of them in the log, exactly once", f"{_found(platform, taken)}", f"{len(taken)}")


def _nothing() -> None:
    """Nothing else happens while they are submitted."""


def _used_s(pids: dict[str, int]) -> dict[str, float]:
    """What each process, with those it started, has used of a core since its start."""
    return {
        name: sum(cpu_s(each.pid) for each in _family(pid))
        for name, pid in pids.items()
        if name != "supervisor"  # of all the others
    }


def _family(pid: int) -> list[psutil.Process]:
    first = psutil.Process(pid)
    return [first, *first.children(recursive=True)]


def _row(name: str, taken: list[Taken], submitter: Submitter) -> None:
    sorted_ms = sorted(each.ms for each in taken)
    p50, p99 = sorted_ms[len(taken) // 2], sorted_ms[int(len(taken) * 0.99) - 1]
    again = ", ".join(f"{count} × {code}" for code, count in sorted(submitter.again.items()))
    row(name, f"{p99:.0f} ms", f"≤ 100 ms   (p50 {p50:.0f} ms; come again: {again or 'none'})")


def _process(pid: int) -> processes.Process:
    found = processes.identify(pid)
    assert found is not None
    return found


def _found(platform: RunningPlatform, taken: list[Taken]) -> int:
    """How many of these positions are in the log with their job, which was asked for once."""
    first = min(each.position for each in taken) - len(taken)
    asked: dict[str, int] = {}
    at: dict[int, str] = {}
    for event in platform.client().events(after=max(0, first), type_prefix="job."):
        at[event.position] = event.job or event.data["job"]
        if event.type == "job.requested.v1":
            asked[event.data["job"]] = asked.get(event.data["job"], 0) + 1
    jobs = {each.job for each in taken}
    return sum(at.get(each.position) == each.job and asked[each.job] == 1 for each in taken) - (
        len(taken) - len(jobs)
    )

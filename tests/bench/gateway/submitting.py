"""Jobs submitted over REST at a steady rate, more than are taken, and while admission is killed."""

from __future__ import annotations

import asyncio
import signal
import time
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec
import psutil
from tests.bench.agent import cpu_s
from tests.bench.printing import row

from headrace.embedded import processes, status
from headrace.testing.running import RunningPlatform

PER_S = 500
SECONDS = 5
CONNECTIONS = 192  # more than one asker's room
KILLED_AFTER_S = 2
LEAST_MS = 0.05  # of a process that is named
BODY = msgspec.json.encode(
    {"name": "t", "project": "default", "command": ["true"], "resources": {"gpus": "B200:1"}}
)  # nobody has such a GPU: the jobs wait


class Taken(NamedTuple):
    """One submission that was answered with 201. `ms` counts from when it was due."""

    job: str
    position: int
    ms: float


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

    async def run(self, name: str, per_s: int, seconds: int) -> list[Taken]:
        """That many a second; all of them, once each is answered with 201."""
        self._free: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]]
        self._free = asyncio.Queue()
        for _ in range(CONNECTIONS):
            self._free.put_nowait(await asyncio.open_connection(self._host, self._port))
        self.again = {}
        loop, sending = asyncio.get_running_loop(), []
        began = loop.time()
        for number in range(per_s * seconds):
            due = began + number / per_s
            await asyncio.sleep(due - loop.time())
            sending.append(asyncio.create_task(self._one(f"{name}-{number}", due)))
        taken = await asyncio.gather(*sending)
        while not self._free.empty():
            self._free.get_nowait()[1].close()
        return taken

    async def _one(self, key: str, due: float) -> Taken:
        request = f"{self._head}Idempotency-Key: {key}\r\n\r\n".encode() + BODY
        while True:
            reader, writer = await self._free.get()
            writer.write(request)
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
            answer = msgspec.json.decode(await reader.readexactly(length))
            self._free.put_nowait((reader, writer))
            code = int(head.split(" ", 2)[1])
            if code == 201:
                now = asyncio.get_running_loop().time()
                return Taken(answer["job"], answer["position"], (now - due) * 1000)
            if code not in (429, 503, 504):
                raise SystemExit(f"HTTP {code}: {answer}")
            self.again[code] = self.again.get(code, 0) + 1
            after = head.partition("retry-after: ")[2].partition("\r\n")[0]
            await asyncio.sleep(float(after or 0.2))


def measure(platform: RunningPlatform) -> None:
    """The rate that is promised, twice the rate, and the rate with admission killed."""
    report = status.report(platform.layout)
    pids = {each.name: each.pid for each in report.processes if each.pid is not None}
    submitter = Submitter(platform.url, platform.token)
    asyncio.run(submitter.run("warm", 50, 1))
    before = _used_s(pids)
    taken = asyncio.run(submitter.run("steady", PER_S, SECONDS))
    used_ms = {n: (s - before[n]) / len(taken) * 1000 for n, s in _used_s(pids).items()}
    each = ", ".join(f"{name} {ms:.2f}" for name, ms in used_ms.items() if ms >= LEAST_MS)
    _row(f"{PER_S} submits/s over REST, p99", taken, submitter)
    row("  of a core, each", f"{sum(used_ms.values()):.2f} ms", f"({each})")
    _row(
        f"{2 * PER_S} submits/s, p99", asyncio.run(submitter.run("twice", 2 * PER_S, 2)), submitter
    )
    taken = asyncio.run(_killed(submitter, pids["admission"]))
    _row(f"{PER_S} submits/s with admission killed, p99", taken, submitter)
    row("  of them in the log, exactly once", f"{_found(platform, taken)}", f"{len(taken)}")


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


async def _killed(submitter: Submitter, admission: int) -> list[Taken]:
    asyncio.get_running_loop().call_later(
        KILLED_AFTER_S, lambda: processes.send(_process(admission), signal.SIGKILL)
    )
    return await submitter.run(f"killed-{time.time_ns()}", PER_S, SECONDS)


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

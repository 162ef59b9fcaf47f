"""What requests that are refused cost those that are not: a thousand bad ones of each kind among good.

Rule: good ones are sent one after the other on each of a few connections, as fast as they are
answered; before each kind alone, then with a bad one after every few good. What counts is the rate
of the good while the bad last, as a part of the good ones' own just before: what waits has grown by
then. With one to four, 80 % means that a bad one costs what a good one does. A good one that is
refused ends the measurement.
"""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import msgspec
import uvloop
from tests.bench.gateway.submitting import Line
from tests.bench.printing import row

from headrace.testing.running import RunningPlatform

GOOD_CONNECTIONS, BAD_CONNECTIONS = 16, 4
BAD, GOOD_PER_BAD = 1_000, 4
AGAIN = (429, 503, 504)  # come again: it is busy
ALONE_S = 4  # of good ones, to know their rate
JOB = {"name": "t", "project": "default", "command": ["true"], "resources": {"gpus": "H100:1"}}
Bad = tuple[str, str, dict[str, object]]  # method, path, body
KINDS: dict[str, Bad] = {
    "a field that is none": ("POST", "/v1/jobs", JOB | {"gpus": 1}),
    "after a job that is none": ("POST", "/v1/jobs", JOB | {"after": [{"job": "nothing-0000"}]}),
    "a pool that is none": ("POST", "/v1/jobs", JOB | {"pools": ["nowhere"]}),
    "a topology level that is none": ("POST", "/v1/jobs", JOB | {"topology": {"required": "none"}}),
    "a volume that is none": ("POST", "/v1/jobs", JOB | {"volumes": ["nothing:/data"]}),
    "a secret that is none": ("POST", "/v1/jobs", JOB | {"secrets": ["NOTHING"]}),
    "a template that is none": ("POST", "/v1/jobs", JOB | {"template": "nothing"}),
    "more GPUs than any limit": ("POST", "/v1/jobs", JOB | {"preemptibility": "non-preemptible"}),
    "a job to cancel that is none": ("DELETE", "/v1/jobs/nothing-0000", {}),
    "a job to pause that is none": ("POST", "/v1/jobs/nothing-0000/pause", {}),
}


class Sender:
    """Sends one body again and again."""

    def __init__(self, url: str, token: str) -> None:
        at = urlsplit(url)
        self._host, self._port, self._netloc, self._token = at.hostname, at.port, at.netloc, token
        self._number = 0
        self.taken = 0
        self.due = asyncio.Semaphore(0)  # bad ones

    def request(self, method: str, path: str, fields: dict[str, object]) -> bytes:
        """The next one, with a key of its own."""
        self._number += 1
        body = msgspec.json.encode(fields)
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: {self._netloc}\r\n"
            f"Authorization: Bearer {self._token}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nIdempotency-Key: refused-{self._number}\r\n\r\n"
        )
        return head.encode() + body

    async def good(self, enough: asyncio.Event) -> None:
        """Jobs that are taken, one after the other, until there are enough."""
        line = await self._line()
        while not enough.is_set():
            head, body = await line.ask(self.request("POST", "/v1/jobs", JOB))
            if _status(head) == 201:
                self.taken += 1
                if self.taken % GOOD_PER_BAD == 0:
                    self.due.release()
            elif _status(head) not in AGAIN:
                raise SystemExit(f"a good one was answered {head.splitlines()[0]}: {body.decode()}")
        line.close()

    async def bad(self, bad: Bad, count: int) -> dict[int, int]:
        """So many that are refused, one after the other; how often each answer came."""
        line = await self._line()
        found: dict[int, int] = {}
        for _ in range(count):
            await self.due.acquire()
            head, _body = await line.ask(self.request(*bad))
            found[_status(head)] = found.get(_status(head), 0) + 1
        line.close()
        return found

    async def _line(self) -> Line:
        loop = asyncio.get_running_loop()
        _, line = await loop.create_connection(Line, self._host, self._port)
        return line


def measure(platform: RunningPlatform) -> None:
    """The good alone, then beside each kind of bad ones."""
    sender = Sender(platform.url, platform.token)
    for name, bad in KINDS.items():
        alone, _ = uvloop.run(_rate(sender, None))
        beside, answers = uvloop.run(_rate(sender, bad))
        kept = f"{beside / alone * 100:.0f} %"
        rates = f"({alone:.0f} → {beside:.0f} /s; answered {_said(answers)})"
        row(f"good submits beside {BAD} with {name}", kept, f"≥ 80 %   {rates}")


async def _rate(sender: Sender, bad: Bad | None) -> tuple[float, dict[int, int]]:
    loop, enough = asyncio.get_running_loop(), asyncio.Event()
    before, began_s, sender.due = sender.taken, loop.time(), asyncio.Semaphore(0)
    good = [asyncio.create_task(sender.good(enough)) for _ in range(GOOD_CONNECTIONS)]
    answers: dict[int, int] = {}
    if bad is None:
        await asyncio.sleep(ALONE_S)
    else:
        each = BAD // BAD_CONNECTIONS
        for found in await asyncio.gather(*(sender.bad(bad, each) for _ in range(BAD_CONNECTIONS))):
            for status, count in found.items():
                answers[status] = answers.get(status, 0) + count
    rate = (sender.taken - before) / (loop.time() - began_s)
    enough.set()
    await asyncio.gather(*good)
    return rate, answers


def _status(head: str) -> int:
    return int(head.split(" ", 2)[1])


def _said(answers: dict[int, int]) -> str:
    return ", ".join(f"{count} × {status}" for status, count in sorted(answers.items()))

"""Jobs that go on coming while a platform is mistreated, and what was promised about each."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import uuid

import msgspec
from tests.end_to_end.pipeline import ENVELOPE
from tests.logins import creds_for_all

from headrace.bus import subjects
from headrace.bus.interface import NoReply, NotConnected
from headrace.bus.nats import NatsBus
from headrace.client.client import Client
from headrace.client.errors import Unreachable
from headrace.client.model import LIVE

LIVE_WANTED = 100
TASKS = 10  # of each submission
LIVE_MIN = 50
REPLY_S = 2.0
PAUSE_S = 0.05
JOB = {"name": "load", "command": ["sleep", "0.3"], "resources": {"gpus": 1}}


class Load:
    """Keeps about `LIVE_WANTED` jobs queued, starting and running, from a thread of its own.

    They come as arrays; each has a key and is sent until it is accepted.
    """

    def __init__(self, platform, job):
        self.accepted: dict[str, str] = {}  # key to job
        self._job = job | {"array": f"0..{TASKS - 1}"}
        self._client = Client(platform.url, platform.token)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._error: Exception | None = None

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()
        self._client.close()

    def check(self):
        """Raises what ended it before its time."""
        if self._error is not None:
            raise self._error

    def _run(self):
        try:
            while not self._stop.is_set():
                with contextlib.suppress(Unreachable):
                    for _ in range((LIVE_WANTED - live(self._client)) // TASKS):
                        self._submit(uuid.uuid4().hex)
                self._stop.wait(PAUSE_S)
        except Exception as error:
            self._error = error

    def tasks(self):
        """Every job that must end."""
        return {f"{job}/{index}" for job in self.accepted.values() for index in range(TASKS)}

    def _submit(self, key):
        while key not in self.accepted:
            with contextlib.suppress(Unreachable):
                self.accepted[key] = self._client.submit(self._job, key=key).job


def live(client):
    """How many jobs have not ended."""
    counts = client.status().jobs
    return sum(counts.get(state, 0) for state in LIVE)


class Asking:
    """Many requests for a job at once over the bus, each repeated until it is answered."""

    def __init__(self, platform, count, job):
        self._creds, self._url = creds_for_all(platform.layout), platform.nats_url
        self._keys = [uuid.uuid4().hex for _ in range(count)]
        self._body = msgspec.json.encode(job)
        self._answered = asyncio.Event()
        self._asking = []

    async def begin(self, hold):
        """Send half of them, and the others as soon as one is answered and `hold` keeps whoever
        answers; returns when the server has them.
        """
        self._bus = await NatsBus.connect(
            self._url,
            creds_path=self._creds,
            inbox_prefix=subjects.publisher_inbox("default", "load"),
        )
        half = len(self._keys) // 2
        self._send(self._keys[:half])
        await self._answered.wait()
        hold()
        self._send(self._keys[half:])
        await asyncio.sleep(0)  # they are written
        await self._bus._client.flush()

    @property
    def in_flight(self):
        """How many are not answered."""
        return sum(not task.done() for task in self._asking)

    async def answers(self):
        """Key to job, once all are answered."""
        jobs = await asyncio.gather(*self._asking)
        await self._bus.close()
        return dict(zip(self._keys, jobs, strict=True))

    def _send(self, keys):
        self._asking += [asyncio.create_task(self._ask(key)) for key in keys]

    async def _ask(self, key):
        subject = subjects.request("default", "load", "job.submit")
        while True:
            try:
                reply = await self._bus.request(
                    subject, self._body, ENVELOPE | {"ce-id": key}, timeout_s=REPLY_S
                )
            except (NoReply, NotConnected):
                await asyncio.sleep(PAUSE_S)
                continue
            answer = msgspec.json.decode(reply.data)
            assert answer["accepted"], answer
            self._answered.set()
            return answer["job"]

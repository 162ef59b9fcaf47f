"""A small service over the real runtime, on virtual time: what it decides is what the tests ask.

A cancel request for a job is agreed to; for `bad…` it is refused; for `place…` a whole GPU is
booked instead, unless the log's guard said that it is taken. An eligible job is held 10 s later.
"""

from __future__ import annotations

import asyncio
import functools

import msgspec

from headrace.bus.interface import NoReply
from headrace.bus.memory import MemoryBroker, MemoryBus
from headrace.decider import Decider, Draft
from headrace.events import Header, Refusal, decode, decode_header, encode, stream_of, tag_of
from headrace.events.gangs import Act, GangPlaced, GuardTripped, Share, Worker
from headrace.events.jobs import (
    JobCancelling,
    JobCancelRefused,
    JobCancelRequested,
    JobEligible,
    JobHeld,
)
from headrace.runtime.host import Host
from headrace.runtime.posts import bytes_max, spec_of
from headrace.runtime.relay import DEADLETTER
from headrace.runtime.service import Service
from headrace.simulation.loop import VirtualLoop, run
from headrace.store.interface import NewEvent, Unavailable
from headrace.store.memory import MemoryLog, MemoryStore

HELD_US = 10_000_000
EPOCH_US = 1_700_000_000_000_000
WAIT_S = 60.0  # of virtual time


class State(msgspec.Struct):
    asked: list[tuple[int, str]] = []
    taken: list[str] = []
    decided: int = 0
    hold_at_us: int = 0


def evolve(state, entry):
    event = entry.event
    if isinstance(event, JobCancelRequested):
        state.asked.append((entry.position, event.job))
    elif isinstance(event, GuardTripped):
        state.taken.append(event.device)
    elif isinstance(event, JobEligible):
        state.hold_at_us = entry.recorded_at_us + HELD_US
    elif isinstance(event, JobHeld):
        state.hold_at_us = 0
    else:
        state.decided += 1
        state.asked = [one for one in state.asked if one[0] != entry.header.causation]


def decide(state, now_us):
    drafts = [Draft(event=_answer(state, job), causation=at) for at, job in state.asked]
    if state.hold_at_us and now_us >= state.hold_at_us:
        drafts.append(Draft(event=JobHeld(job="j", project="ads", reason="late")))
    return drafts


def _answer(state, job):
    if job.startswith("place") and "g" not in state.taken:
        worker = Worker(rank=0, node="n", address="", devices=(Share(device="g"),))
        return GangPlaced(
            job=job, project="ads", attempt=1, workers=(worker,), requested_at=1, act=Act(rule="r")
        )
    if job.startswith(("bad", "place")):
        refusal = Refusal(field="job", value=job, rule="is not to be")
        return JobCancelRefused(job=job, project="ads", refusal=refusal)
    return JobCancelling(job=job, project="ads")


DECIDER = Decider(
    service="placement",
    state=State,
    initial=State,
    evolve=evolve,
    decide=decide,
    wakeup=lambda state: state.hold_at_us or None,
    listens_to=(
        JobCancelRequested, JobCancelling, JobCancelRefused, GangPlaced, GuardTripped, JobEligible,
        JobHeld,
    ),
)  # fmt: skip


async def receive(request, _runtime):
    try:
        job = msgspec.json.decode(request.body, type=dict[str, str])["job"]
    except (msgspec.DecodeError, KeyError):
        return Refusal(field="body", rule="names a job")
    if job == "unread":
        raise Unavailable("a fault")
    return JobCancelRequested(job=job, project=request.project, user=request.actor)


async def receive_anything(request, _runtime):
    return JobCancelRequested(job="any", project=request.project, user=request.actor)


class Shell:
    """Notes what it is told, and what of the log was there by then."""

    def __init__(self, log):
        self.log = log
        self.told = []
        self.seen = []

    async def lead(self, runtime):
        self.told.append(("lead", runtime.epoch, runtime.position))

    async def committed(self, entries):
        self.seen.extend(entry.position for entry in entries)
        assert entries[-1].position <= len(self.log.events)

    async def close(self):
        self.told.append("close")


class Rig:
    """A log, a bus, and hosts of the small service; `append` is every other service."""

    def __init__(self):
        self.log = MemoryLog()
        self.broker = MemoryBroker()
        self.bus = MemoryBus(self.broker, "test")
        self.store = self.new_store()
        self.running = {}
        self.shells = {}
        self.fails = set()  # `<holder> <operation>.<before or after>` that fail, once each
        self.slow = {}  # the same, that take so many seconds, once each
        self._epoch = 0
        self._keys = 0

    def new_store(self, holder=""):
        async def fault(point):
            await asyncio.sleep(self.slow.pop(f"{holder} {point}", 0))
            if f"{holder} {point}" in self.fails:
                self.fails.remove(f"{holder} {point}")
                raise Unavailable("a fault")

        loop = asyncio.get_running_loop()
        return MemoryStore(
            self.log, lambda: EPOCH_US + int(loop.time() * 1e6), fault=fault if holder else None
        )

    async def start(self, holder="a", version="v1"):
        """A host that runs; the streams of the platform are there."""
        for spec in (spec_of("ads", bytes_max()), spec_of("quiet", bytes_max()), DEADLETTER):
            await self.bus.ensure_stream(spec)
        self.shells[holder] = Shell(self.log)
        store = self.new_store(holder)
        host = Host(
            Service(
                decider=DECIDER,
                shell=self.shells[holder],
                requests={"job.cancel": receive, "job.anything": receive_anything},
                settings={"held_us": HELD_US},
                metrics=lambda _state: "headrace_fleet 1\n",
                posting=lambda _state: ({"ads", "quiet"}, ()),
            ),
            store=store,
            bus=MemoryBus(self.broker, holder),
            vault=store,
            monotonic_s=asyncio.get_running_loop().time,
            holder=holder,
            decision_version=version,
        )
        self.running[holder] = asyncio.create_task(host.run())
        return host

    async def leading(self, holder="a", version="v1"):
        host = await self.start(holder, version)
        await until(lambda: host.leading and self.shells[holder].told)
        return host

    async def kill(self, holder):
        """As SIGKILL: its connections are gone and it does nothing any more."""
        self.broker.clients.pop(holder)
        self.running[holder].cancel()
        await asyncio.gather(self.running[holder], return_exceptions=True)

    async def end(self, host, holder="a"):
        await host.stop()
        await self.running[holder]

    async def ask(
        self, job="j", key="", *, verb="job.cancel", body=None, door="request.ads.etl", headers=None
    ):
        """What is answered, repeating under the same key as a client does."""
        self._keys += 1
        envelope = {
            "ce-id": key or f"key-{self._keys}",
            "ce-source": "test",
            "ce-specversion": "1.0",
            "ce-type": f"headrace.{verb.replace('-', '_')}.v1",
        }
        data = msgspec.json.encode({"job": job}) if body is None else body
        async with asyncio.timeout(WAIT_S):
            while True:
                try:
                    subject = f"headrace.{door}.{verb}"
                    answer = await self.bus.request(
                        subject, data, envelope | (headers or {}), timeout_s=1.0
                    )
                except NoReply:
                    await asyncio.sleep(0.1)
                else:
                    return msgspec.json.decode(answer.data)

    async def append(self, *events, key=""):
        """What another service appended, unheard on the bus; the requests in it under this key."""
        await self.store.lead("quota", "test", 1000.0)
        self._epoch += 1
        head = await self.store.head()
        new = [
            NewEvent(
                stream=stream_of(event),
                type=tag_of(event),
                project="ads",
                header=encode(
                    Header(project="ads", correlation=getattr(event, "job", ""), request_key=key)
                ),
                data=encode(event),
            )
            for event in events
        ]
        appended = await self.store.append("quota", self._epoch, head.position, head.hash, new)
        return list(appended.events)

    def lose_the_log(self):
        """As restored from a backup of when it was empty."""
        self.log.events.clear()
        self.log.streams.clear()
        self.log.requests.clear()
        for head in self.log.services.values():
            head.last_position = 0

    def events(self, *types):
        wanted = {tag_of(type_) for type_ in types}
        return [decode(e.type, e.data) for e in self.log.events if e.type in wanted]

    def headers(self, type_):
        return [decode_header(e.header) for e in self.log.events if e.type == tag_of(type_)]


async def until(condition):
    """Wait, in virtual time, until `condition()` holds."""
    async with asyncio.timeout(WAIT_S):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


def eligible(number):
    return JobEligible(job=f"j{number}", project="ads")


def virtual(test):
    """Run the test's coroutine on virtual time; what nobody heard of fails it."""

    @functools.wraps(test)
    def wrapper(*args, **kwargs):
        loop = VirtualLoop()
        run(test(*args, **kwargs), loop)
        assert loop.errors == []

    return wrapper

"""Services as the log sees them: what they append, and where they stand."""

from __future__ import annotations

from headrace.events.guards import Guard
from headrace.store.interface import GENESIS, Appended, NewEvent, Snapshot, follows

TYPES = {
    "admission": "job.requested.v1",
    "quota": "job.eligible.v1",
    "placement": "gang.placed.v1",
    "metrics": "usage.accounted.v1",
}
LEASE_S = 60.0


def event(number=0, service="admission", *, key="", same_as=b"", guards=(), **changes):
    fields = {
        "stream": f"job/{number}",
        "type": TYPES[service],
        "project": "vision",
        "header": b'{"n":%d}' % number,
        "data": b"\x00\xff%d" % number,
        "guards": tuple(guards),
        "request_key": key,
        "request_hash": same_as or (b"hash of %d" % number if key else b""),
    }
    return NewEvent(**(fields | changes))


def booking(key, delta, limit=1000):
    return event(service="placement", guards=[Guard(key=key, delta=delta, limit=limit)])


class Leader:
    """A service that leads and has read everything it appended."""

    def __init__(self, store, service, epoch):
        self.store, self.service, self.epoch = store, service, epoch
        self.position, self.hash = 0, GENESIS

    async def append(self, *events) -> Appended:
        appended = await self.store.append(
            self.service, self.epoch, self.position, self.hash, list(events)
        )
        if appended.events:
            self.position, self.hash = appended.events[-1].position, appended.events[-1].hash
        return appended

    async def read_on(self):
        for stored in await self.store.read(self.position):
            self.position, self.hash = stored.position, stored.hash


async def leader(logs, service="admission", holder="one"):
    store = await logs.store(service)
    term = await store.lead(service, holder, LEASE_S)
    assert term is not None
    new = Leader(store, service, term.epoch)
    await new.read_on()
    return new


async def assert_whole(store):
    """The whole log chains from the first position on, without a gap."""
    position, hash_ = 0, GENESIS
    while page := await store.read(position, 100):
        for stored in page:
            assert follows(stored, position, hash_)
            position, hash_ = stored.position, stored.hash
    head = await store.head()
    assert (head.position, head.hash) == (position, hash_)
    return position


def snapshot(service, position, hash_, version="v1", data=b"state"):
    return Snapshot(
        service=service, position=position, hash=hash_, decision_version=version, data=data
    )

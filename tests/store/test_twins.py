"""Postgres and its twin answer the same to the same history of calls, drawn at random."""

from __future__ import annotations

import random

import pytest
from tests.contract import logs as kinds
from tests.contract.services import TYPES, event, snapshot

from headrace.events.guards import Guard
from headrace.store.interface import GENESIS, GuardRefused, StoreError

STEPS = 60
SERVICES = ("admission", "placement")
KEYS = ("", "", "", "k1", "k2", "k3")


class Caller:
    """Makes one history of calls, and writes down the answers without times and hashes."""

    def __init__(self, logs, seed):
        self.logs, self.random = logs, random.Random(seed)
        self.stores, self.epochs, self.answers = {}, dict.fromkeys(SERVICES, 0), []
        self.basis = dict.fromkeys(SERVICES, 0)

    async def run(self):
        for service in SERVICES:
            self.stores[service] = await self.logs.store(service)
        for _ in range(STEPS):
            service = self.random.choice(SERVICES)
            call = self.random.choice((self.append,) * 8 + (self.lead, self.renew, self.snapshot))
            try:
                self.answers.append(await call(service))
            except GuardRefused as error:
                self.answers.append(error.key)
            except StoreError as error:
                self.answers.append(type(error))
        return self.answers

    async def append(self, service):
        store, draw = self.stores[service], self.random
        head = await store.head()
        self.basis[service] = draw.choice((head.position, head.position, self.basis[service]))
        before = await store.read(max(0, self.basis[service] - 1), 1)
        hash_ = before[0].hash if self.basis[service] else GENESIS
        epoch = self.epochs[service] - (draw.random() < 0.05)
        events = [self.event(service) for _ in range(draw.randrange(5))]
        appended = await store.append(service, epoch, self.basis[service], hash_, events)
        positions = [(e.position, e.stream, e.data) for e in appended.events]
        return positions, appended.indexes, appended.duplicates

    def event(self, service):
        draw = self.random
        guards = [
            Guard(key=f"gpu/{draw.choice('ab')}", delta=draw.choice((-600, 300, 500)))
            for _ in range(draw.choice((0, 0, 1, 2)))
        ]
        kind = TYPES[draw.choice((service,) * 15 + SERVICES)]
        key, hash_ = draw.choice(KEYS), b"h%d" % draw.randrange(2)
        return event(draw.randrange(9), service, key=key, same_as=hash_, guards=guards, type=kind)

    async def lead(self, service):
        lease_s = self.random.choice((0.0, 600.0))
        holder = self.random.choice(("one", "two"))
        term = await self.stores[service].lead(service, holder, lease_s)
        self.epochs[service] = term.epoch if term else self.epochs[service]
        return term

    async def renew(self, service):
        store, holder = self.stores[service], self.random.choice(("one", "two"))
        lease_s = self.random.choice((0.0, 600.0))
        return await store.renew(service, holder, self.epochs[service], lease_s)

    async def snapshot(self, service):
        store, version = self.stores[service], self.random.choice(("v1", "v2"))
        head = await store.head()
        hash_ = self.random.choice((head.hash, head.hash, b"\1" * 32))
        await store.save_snapshot(snapshot(service, head.position, hash_, version))
        found = [await store.load_snapshot(service, v) for v in ("v1", "v2")]
        return [one and one.position for one in found]


@pytest.mark.parametrize("seed", range(12))
async def test_both_logs_answer_the_same(common_database, seed):
    await kinds.empty(common_database)
    answers = []
    for logs in (kinds.MemoryLogs(), kinds.PostgresLogs(common_database)):
        try:
            answers.append(await Caller(logs, seed).run())
        finally:
            await logs.close()
    assert answers[0] == answers[1]
    assert len({str(type(answer)) for answer in answers[0]}) > 2

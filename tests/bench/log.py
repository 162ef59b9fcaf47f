"""The log: appending, reaching another process, folding, verifying."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from importlib.metadata import entry_points

from tests.bench.platform import Platform

from headrace.decider import fold
from headrace.embedded import settings
from headrace.embedded.layout import Layout
from headrace.embedded.platform import operator_dsn, owner_dsn
from headrace.runtime.reader import entry_of
from headrace.store.interface import Stored
from headrace.store.postgres import PostgresStore
from headrace.verification.verify import Verification

Row = tuple[str, str, str]


async def measure(platform: Platform) -> list[Row]:
    """Fold and verify the log that the jobs left, on one core each."""
    dsn = operator_dsn(Layout(platform.data_dir))
    store = await PostgresStore.connect(dsn)
    events = await _everything(store)
    await store.close()
    deciders = {point.name: point.load() for point in entry_points(group="headrace.deciders")}
    entries = [entry_of(event) for event in events]
    rates = {}
    for name, decider in deciders.items():
        began = time.perf_counter()
        fold(decider, decider.initial(), entries)
        rates[name] = len(entries) / (time.perf_counter() - began)
    verification = Verification(deciders)
    began = time.perf_counter()
    for event in events:
        verification.take(event)
    verified = len(events) / (time.perf_counter() - began)
    slowest = min(rates, key=lambda name: rates[name])
    return [
        (
            f"fold, slowest decider ({slowest}), {len(events)} events",
            f"{rates[slowest]:,.0f} ev/s",
            "≥ 100,000",
        ),
        ("verify with re-derivation", f"{verified:,.0f} ev/s", "≥ 10,000"),
        *await _append(platform),
    ]


async def _everything(store: PostgresStore) -> list[Stored]:
    events: list[Stored] = []
    while page := await store.read(events[-1].position if events else 0):
        events += page
    return events


async def _append(platform: Platform) -> list[Row]:
    """The store's own benchmark, in a database of its own beside the platform's. Prints its rows."""
    layout = Layout(platform.data_dir)
    dsn = owner_dsn(layout, settings.read(layout))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "headrace.store.bench", dsn, stdout=subprocess.PIPE
    )
    printed, _ = await process.communicate()
    print(printed.decode(), end="")
    return []

"""How fast a log takes appends: `python -m headrace.store.bench DSN` (an administrator's).

Works in a database of its own, which it drops. Prints events per second and the latency of one
append for batches of 1, 64 and 256 events.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from headrace.events import tag_of
from headrace.events.jobs import JobAdmitted
from headrace.store.connection import connect
from headrace.store.interface import NewEvent
from headrace.store.migrate import migrate
from headrace.store.postgres import PostgresStore

BATCHES = (1, 64, 256)
WARM_UP_S = 0.5
MEASURE_S = 3.0
EVENT_BYTES = 450  # header and data together, about what events of jobs have
DATABASE = "headrace_bench"


def main() -> None:
    """Measure the server at the DSN given as the only argument."""
    if len(sys.argv) != 2:
        raise SystemExit("usage: python -m headrace.store.bench DSN")
    asyncio.run(_run(sys.argv[1]))


async def _run(dsn: str) -> None:
    admin = await connect(dsn)
    try:
        print(await _facts(admin))
        await admin.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
        await admin.execute(f"CREATE DATABASE {DATABASE}")
        try:
            await _measure_all(urlunsplit(urlsplit(dsn)._replace(path=f"/{DATABASE}")))
        finally:
            await admin.execute(f"DROP DATABASE {DATABASE} WITH (FORCE)")
    finally:
        await admin.close()


async def _measure_all(dsn: str) -> None:
    await migrate(dsn, {})
    store = await PostgresStore.connect(dsn)
    try:
        for batch in BATCHES:
            print(await _measure(store, batch))
    finally:
        await store.close()


async def _measure(store: PostgresStore, batch: int) -> str:
    """One line for this batch size."""
    term = await store.lead("admission", "bench", 60.0)
    assert term is not None
    head = await store.head()
    position, hash_ = head.position, head.hash
    latencies_ms: list[float] = []
    events = [_event(number) for number in range(batch)]
    started_s = time.perf_counter()
    while (before_s := time.perf_counter()) < started_s + WARM_UP_S + MEASURE_S:
        appended = await store.append("admission", term.epoch, position, hash_, events)
        position, hash_ = appended.events[-1].position, appended.events[-1].hash
        if before_s > started_s + WARM_UP_S:
            latencies_ms.append((time.perf_counter() - before_s) * 1000)
    rate = batch * len(latencies_ms) * 1000 / sum(latencies_ms)
    cuts = statistics.quantiles(latencies_ms, n=100)
    return (
        f"append of {batch:>3} events: {rate:>8,.0f} events/s"
        f"   p50 {cuts[49]:.2f} ms   p99 {cuts[98]:.2f} ms"
    )


def _event(number: int) -> NewEvent:
    header = b'{"actor":"bench","project":"vision","correlation":"job-%08d"}' % number
    return NewEvent(
        stream=f"job/job-{number:08}",
        type=tag_of(JobAdmitted),
        project="vision",
        header=header,
        data=b"x" * (EVENT_BYTES - len(header)),
    )


async def _facts(admin: Any) -> str:
    query = "SELECT current_setting('server_version'), current_setting('fsync')"
    version, fsync = await admin.fetchrow(query)
    return f"Postgres {version}, fsync {fsync}, {EVENT_BYTES} bytes an event"


if __name__ == "__main__":
    main()

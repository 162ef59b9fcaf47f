"""`make bench-gateway`: what reading, following and submitting over HTTP cost, with the machine's
facts.

Rule: nothing here passes or fails; a figure is printed with its target and read by a person.
`python -m tests.bench.gateway PART …` measures only these parts: reads, submits, cold.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from tests.bench.gateway import cold, following, history, reading, standing, submitting
from tests.bench.printing import facts, row

from headrace.store.migrate import migrate
from headrace.store.postgres import PostgresStore
from headrace.testing.running import started_platform

PARTS = ("reads", "submits", "cold")


def main(parts: list[str]) -> None:
    """Measure these parts, each on servers of its own."""
    print(f"{facts()}, fsync on, embedded servers")
    row("figure", "measured", "target")
    if "reads" in parts:
        with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
            reads(Path(folder))
    if "submits" in parts or "cold" in parts:
        with started_platform("--nodes", "1", "--gpus", "simulated:8xH100-80GB") as platform:
            if "cold" in parts:
                cold.measure(platform)
            if "submits" in parts:
                submitting.measure(platform)


def reads(folder: Path) -> None:
    """A gateway alone, over a log of jobs that ended, jobs that live, and nodes."""
    with standing.servers(folder) as at:
        asyncio.run(migrate(at.dsn, {}))
        events = asyncio.run(_filled(at.dsn))
        with standing.gateway(folder, at) as served:
            row(f"gateway ready, {events} events", f"{served.start_s:.1f} s", "")
            reading.measure(served)
            asyncio.run(_followed(served, at))


async def _filled(dsn: str) -> int:
    store = await PostgresStore.connect(dsn)
    try:
        return await history.write(history.Writer(store))
    finally:
        await store.close()


async def _followed(served: standing.Served, at: standing.Servers) -> None:
    store = await PostgresStore.connect(at.dsn)
    try:
        writer = history.Writer(store)
        await writer.append([next(history.live("first-0", 0))])
        await following.measure(served, at, writer)
    finally:
        await store.close()


if __name__ == "__main__":
    main(sys.argv[1:] or list(PARTS))

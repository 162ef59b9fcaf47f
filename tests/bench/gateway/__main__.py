"""`make bench-gateway`: what reading, following and submitting over HTTP cost, with the machine's
facts.

Rule: nothing here passes or fails; a figure is printed with its target and read by a person.
`python -m tests.bench.gateway PART …` measures only these parts: reads, cold, submits, refused, follows.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from tests.bench.gateway import (
    cold,
    following,
    history,
    populated,
    reading,
    refused,
    standing,
    submitting,
)
from tests.bench.printing import facts, row

from headrace.store.migrate import migrate
from headrace.store.postgres import PostgresStore
from headrace.testing.running import RunningPlatform

ON_A_PLATFORM = {
    "reads": reading.measure,
    "cold": cold.measure,
    "submits": submitting.measure,
    "refused": refused.measure,
}
FOLLOWS = "follows"


def main(parts: list[str]) -> None:
    """Measure these parts: the first ones on a whole platform, one after the other."""
    print(f"{facts()}, fsync on, embedded servers")
    row("figure", "measured", "target")
    if any(part in ON_A_PLATFORM for part in parts):
        with populated.platform() as platform:
            on_a_platform(platform, parts)
    if FOLLOWS in parts:
        with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
            follows(Path(folder))


def on_a_platform(platform: RunningPlatform, parts: list[str]) -> None:
    """What is asked of a platform whose nodes speak meanwhile."""
    populated.settle(platform)
    for part, measure in ON_A_PLATFORM.items():
        if part in parts:
            measure(platform)


def follows(folder: Path) -> None:
    """A gateway alone, so that it is known whose the events are and how many."""
    with standing.servers(folder) as at:
        asyncio.run(migrate(at.dsn, {}))
        events = asyncio.run(_filled(at.dsn))
        with standing.gateway(folder, at) as served:
            row(f"gateway ready, {events} events", f"{served.start_s:.1f} s", "")
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
    main(sys.argv[1:] or [*ON_A_PLATFORM, FOLLOWS])

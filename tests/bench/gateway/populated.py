"""A whole platform that has seen something: jobs that ended, jobs that live, a fleet in use.

Rule: what it knows it reads from its log when it starts, and what its nodes say comes over the bus.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator

from tests.bench.agent import cpu_s
from tests.bench.gateway import history

from headrace.embedded import status
from headrace.embedded.layout import Layout
from headrace.embedded.platform import DATABASE
from headrace.embedded.postgres import Postgres
from headrace.store.postgres import PostgresStore
from headrace.testing.running import RunningPlatform, started_platform

SETTLED_S_MAX, LOOKS_S = 120.0, 2.0
STARTING = ("admission", "quota", "placement", "metrics", "gateway")
MANY = {
    "HEADRACE_ADMISSION_JOBS_PER_USER_MAX": "1000000",
    "HEADRACE_ADMISSION_JOBS_PER_PROJECT_MAX": "1000000",
}  # jobs of one user, that all parts together submit and that wait
SETTLED = 0.3  # of a core that these take together, of which hearing the nodes is most


@contextlib.contextmanager
def platform() -> Iterator[RunningPlatform]:
    """It, and who speaks for its nodes. Both end with the block."""
    with started_platform("--nodes", "1", "--gpus", "simulated:1xA100-40GB", **MANY) as made:
        made.down()
        _fill(made.layout)
        made.up()
        account_seed = made.layout.secrets / "account.seed"
        speaker = [sys.executable, "-m", "tests.bench.gateway.fleet", made.nats_url, account_seed]
        with subprocess.Popen(speaker) as speaking:
            try:
                yield made
            finally:
                speaking.terminate()


def pids_of(platform: RunningPlatform) -> dict[str, int]:
    """The pid of each of its processes, by name."""
    report = status.report(platform.layout)
    return {each.name: each.pid for each in report.processes if each.pid is not None}


def settle(platform: RunningPlatform) -> None:
    """Return once it has nothing left to do but to hear its nodes: what its log had was told to the
    streams and accounted for.
    """
    pids = pids_of(platform)
    deadline_s = time.monotonic() + SETTLED_S_MAX
    while time.monotonic() < deadline_s:
        before_s, began_s = _used_s(pids), time.monotonic()
        time.sleep(LOOKS_S)
        if (_used_s(pids) - before_s) / (time.monotonic() - began_s) < SETTLED:
            return
    raise SystemExit(f"the platform is busy after {SETTLED_S_MAX:.0f} s")


def _used_s(pids: dict[str, int]) -> float:
    return sum(cpu_s(pids[name]) for name in STARTING)


def _fill(layout: Layout) -> None:
    postgres = Postgres(layout.postgres())
    postgres.start()
    try:
        asyncio.run(_write(postgres.dsn(DATABASE)))
    finally:
        postgres.stop()


async def _write(dsn: str) -> None:
    store = await PostgresStore.connect(dsn)
    try:
        writer = history.Writer(store)
        await history.write(writer)
        await writer.close()
    finally:
        await store.close()

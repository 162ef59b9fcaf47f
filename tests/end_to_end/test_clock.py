"""The database's clock is set a year ahead and right again under a live platform."""

from __future__ import annotations

import asyncio
import contextlib

import asyncpg

from headrace.embedded import platform as embedded
from headrace.embedded import settings

YEAR_US = 365 * 86_400_000_000
HOUR_US = 3_600_000_000
JOB = {"name": "steady", "command": ["sleep", "1000"], "resources": {"gpus": 8}}


def set_clock(platform, ahead_us):
    """All of the platform that asks the database for the time asks this function."""

    async def run():
        dsn = embedded.owner_dsn(platform.layout, settings.read(platform.layout))
        connection = await asyncpg.connect(dsn)
        await connection.execute(
            "CREATE OR REPLACE FUNCTION headrace.wall_us() RETURNS bigint LANGUAGE sql RETURN"
            f" (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + ({ahead_us})"
        )
        await connection.close()

    asyncio.run(run())


def test_a_clock_a_year_ahead_books_no_hours_and_forgets_no_key(new_platform):
    platform = new_platform("--nodes", "1", "--gpus", "simulated:8xH100-80GB")
    with contextlib.closing(platform.client()) as client:

        def steps():
            return [e.data["by_us"] for e in client.events(after=0, type_prefix="clock.stepped")]

        job = client.submit(JOB, key="once").job
        platform.wait(lambda: client.job(job).job.state == "running", "it runs")
        for ahead_us, count in ((YEAR_US, 1), (0, 2)):
            set_clock(platform, ahead_us)
            platform.wait(lambda count=count: len(steps()) == count, "the step is noticed")
            assert client.submit(JOB, key="once").job == job
            assert client.submit(JOB | {"name": f"other-{count}"}, key=f"other-{count}").job != job
            assert client.job(job).job.state == "running"
            assert client.job(job).job.ran_us < HOUR_US
        assert [round(by_us / YEAR_US) for by_us in steps()] == [1, -1]
        client.cancel(job)
        platform.wait(lambda: client.job(job).job.state == "cancelled", "it has ended")
        ran_us = [e.data["held_us"] for e in client.events(after=0, type_prefix="gang.released")]
        times_us = [e.at_us for e in client.events(after=0)]
        assert ran_us
        assert max(ran_us) < HOUR_US
        assert max(times_us) - min(times_us) < HOUR_US
    platform.verify()

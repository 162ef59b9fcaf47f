"""Submissions over REST while admission is killed: who was told yes has one job, where it was said."""

import asyncio
import itertools

from headrace.client import AsyncClient

JOBS = 60
KILLED_AFTER = 15
JOB = {"name": "rest", "command": ["true"], "resources": {"gpus": "B200:1"}}  # which nobody has


async def test_every_yes_is_in_the_log_exactly_once_after_admission_was_killed(platform):
    client = AsyncClient(platform.url, platform.token, "default")
    before = (await client.status()).position
    counted, killed = itertools.count(1), asyncio.Event()

    async def submit(number):
        answer = await client.submit(JOB, key=f"rest-door-{number}")
        if next(counted) == KILLED_AFTER:
            killed.set()
        return answer

    submitting = [asyncio.create_task(submit(number)) for number in range(JOBS)]
    await killed.wait()
    await asyncio.to_thread(platform.kill, "admission")
    answers = await asyncio.gather(*submitting)
    again = await asyncio.gather(*(submit(number) for number in range(JOBS)))
    assert [answer.job for answer in again] == [answer.job for answer in answers]
    events = [event async for event in client.events(after=before, type_prefix="job.")]
    client.close()
    at = {event.position: event.data["job"] for event in events}
    assert all(at[answer.position] == answer.job for answer in answers)
    asked = [event.data["job"] for event in events if event.type == "job.requested.v1"]
    ours = {answer.job for answer in answers}
    assert len(ours) == JOBS
    assert sorted(job for job in asked if job in ours) == sorted(ours)
    await asyncio.gather(*(asyncio.to_thread(platform.client().cancel, job) for job in ours))
    platform.wait_ready()

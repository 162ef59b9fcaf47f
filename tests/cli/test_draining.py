"""A node is taken out when it is known what that loses."""

import asyncio
import json

import msgspec
from tests.cli.program import accept, in_log
from tests.gateway.histories import admitted, evicted, joined, placed, released, requested

from headrace.events.asked import Workspace
from headrace.events.gangs import Share
from headrace.events.jobs import Checkpoint, JobFinished
from headrace.events.nodes import NodeChanged

SAVES = Checkpoint(signal="USR1", grace_us=60_000_000)


async def fleet(world):
    jobs = (
        ("saves-a", {"checkpoint": SAVES}),
        ("anew-a", {}),
        ("desk-a", {"workspace": Workspace(port=8888)}),
    )
    await in_log(world, joined())
    for job, about in jobs:
        await in_log(world, requested(job, **about), admitted(job), placed(job, milli=100))
    await accept(world, "node.change")


async def test_what_moving_loses_is_said_before_and_nothing_is_done_without_a_yes(world, headrace):
    await fleet(world)
    code, out, err = await headrace("node", "drain", "n1", "--deadline", "30m")
    assert (code, out, world.asked) == (1, "", [])
    assert "saves-a" not in err
    assert "anew-a has run" in err
    assert "and saves no checkpoint: moved, it starts anew" in err
    assert "moved, it loses its programs and files beside volumes" in err
    assert "say --yes" in err


async def test_its_jobs_may_end_by_themselves_until_the_deadline(world, headrace):
    await fleet(world)
    draining = asyncio.create_task(headrace("node", "drain", "n1", "--deadline", "30m", "--yes"))
    while not world.asked:  # noqa: ASYNC110 - the command line asks from a thread of its own
        await asyncio.sleep(0.005)
    deadline_us = 30 * 60 * 1_000_000
    asked = {"node": "n1", "change": "drain", "deadline_us": deadline_us}
    assert json.loads(world.asked[0].data) == asked
    await in_log(
        world,
        NodeChanged(node="n1", change="drain", deadline_us=deadline_us),
        *(JobFinished(job=f"{name}-a", project="vision", attempt=1, outcome="succeeded", waited_us=1)
          for name in ("saves", "anew", "desk")),
    )  # fmt: skip
    code, out, _ = await draining
    assert code == 0
    assert "its jobs end within 30m00s or are asked to save themselves and move" in out
    assert "lost" not in out
    assert "n1 is empty" in out


async def test_what_was_lost_is_said_and_that_nothing_else_takes_work(world, headrace):
    await fleet(world)
    draining = asyncio.create_task(headrace("node", "drain", "n1", "--yes"))
    while not world.asked:  # noqa: ASYNC110 - the command line asks from a thread of its own
        await asyncio.sleep(0.005)
    await in_log(
        world,
        NodeChanged(node="n1", change="drain"),
        *(JobFinished(job=job, project="vision", attempt=1, outcome="succeeded", waited_us=1)
          for job in ("saves-a", "desk-a")),
        evicted("anew-a"),
        msgspec.structs.replace(
            released("anew-a", again=True), shares=(Share(device="GPU-0", milli=100),), milli=100
        ),
    )  # fmt: skip
    code, out, err = await draining
    assert code == 0
    assert "n1 is the only node that takes work: until another does, all jobs wait" in err
    assert "  lost: what anew-a did in attempt 1\n" in out
    assert "desk-a did" not in out

"""Jobs that leave their GPUs, as people see them: asked for, said, and counted."""

import json

import pytest
from tests.gateway.histories import (
    RUN,
    admitted,
    folded,
    joined,
    placed,
    released,
    requested,
    started,
)
from tests.gateway.test_projection import row_of, sweep

from headrace.events.gangs import Act
from headrace.events.pauses import (
    GangPaused,
    GangPausing,
    GangResumed,
    JobPaused,
    JobPausing,
    JobResuming,
)
from headrace.gateway import rows


@pytest.mark.parametrize("verb", ["pause", "resume"])
async def test_a_job_or_a_trial_is_paused_and_resumed_in_its_own_project(world, verb):
    trial = admitted("lr-x/1", group="lr-x", index=1)
    await world.append(*RUN, requested("lr-x"), admitted("lr-x", tasks=2), trial)
    await world.gateway.follower.reached(9)
    await world.answer(f"job.{verb}", lambda _: {"accepted": True, "position": 0})
    ask = getattr(world.client(), verb)
    told = [(await world.call(ask, job)).job for job in ("hel", "lr-x", "lr-x/1")]
    assert told == ["hello-a", "lr-x", "lr-x/1"]
    assert {m.subject for m in world.asked} == {f"headrace.gateway.vision.job.{verb}"}
    assert [json.loads(m.data)["job"] for m in world.asked] == told


def pausing(job="hello-a"):
    return JobPausing(job=job, project="vision", user="bob")


def paused(job="hello-a", way="cuda-checkpoint", **more):
    return JobPaused(job=job, project="vision", way=way, attempt=1, **more)


LEAVING = GangPausing(
    job="hello-a",
    project="vision",
    attempt=1,
    phase="locked",
    reason="paused",
    act=Act(rule="paused"),
)


def test_a_paused_job_gives_its_devices_back_and_says_how_it_left_them():
    away = GangPaused(
        job="hello-a", project="vision", attempt=1, way="cuda-checkpoint", milli=500,
        shares=released().shares,
    )  # fmt: skip
    projection = folded(joined(), *RUN, pausing())
    assert row_of(projection).why == "is to pause, for bob"
    assert row_of(folded(LEAVING, into=projection)).state == "stopping"
    row = row_of(folded(away, paused(), into=projection))
    assert (row.state, row.why, row.held_milli) == ("paused", "paused by cuda-checkpoint", 0)
    assert rows.node_rows(projection, ["n1"])[0].held_milli == 0

    row = row_of(folded(JobResuming(job="hello-a", project="vision"), into=projection))
    assert (row.state, row.why) == ("waiting", "is resumed")
    there = placed()
    back = GangResumed(
        job="hello-a", project="vision", attempt=1, workers=there.workers, milli=500, act=there.act
    )
    row = row_of(folded(back, into=projection))
    assert (row.state, row.held_milli) == ("running", 500)


def test_a_paused_job_says_what_it_lost():
    row = row_of(folded(*RUN, pausing(), paused(way="stop", lost="all that attempt 1 did")))
    assert row.why == "paused by stop; lost: all that attempt 1 did"


def test_a_paused_sweep_is_stopping_until_its_trials_have_stopped_and_counts_their_ways():
    projection = sweep(placed("lr-x/0"), started("lr-x/0"), pausing("lr-x"), pausing("lr-x/0"))
    assert row_of(projection, "lr-x").state == "stopping"
    folded(
        paused("lr-x/0", way="signal"), *(paused(f"lr-x/{i}", way="waiting") for i in (1, 2)),
        into=projection,
    )  # fmt: skip
    row = row_of(projection, "lr-x")
    assert (row.state, row.why) == ("paused", "paused: 1 by signal, 2 before they ran")

    folded(*(JobResuming(job=job, project="vision") for job in ("lr-x", "lr-x/0")), into=projection)
    assert row_of(projection, "lr-x").state == "waiting"

"""What people see of jobs, events and output."""

import asyncio
import json

import msgspec
import pytest
from tests.cli.program import TIMEOUT_S, in_log
from tests.gateway.histories import (
    RUN,
    SUCCEEDED,
    admitted,
    evicted,
    finished,
    joined,
    placed,
    released,
    requested,
    started,
    worker_exited,
)
from tests.gateway.test_streams import Agent

from headrace.bus import subjects
from headrace.events import Refusal
from headrace.events.jobs import JobCancelling, JobHeld, JobRefused
from headrace.scheduling.explanation import Explanation


async def test_ps_shows_where_jobs_run_or_why_they_do_not(world, headrace):
    held = JobHeld(job="big-b", project="ads", reason="ads is at its limit of 8 GPUs")
    refusal = Refusal(field="nodes", value="4", rule="too many")
    await in_log(
        world,
        joined(),
        *RUN,
        requested("big-b", "ads"),
        admitted("big-b", "ads"),
        held,
        requested("evil\x1b[2J-c"),
        JobRefused(job="evil\x1b[2J-c", project="vision", refusal=refusal),
    )
    code, out, _ = await headrace("ps")
    header, hello, big, evil = (line.split() for line in out.splitlines())
    assert code == 0
    assert header == [
        "JOB",
        "PROJECT",
        "TYPE",
        "STATE",
        "GPUS",
        "WAITED",
        "RAN",
        "WHERE",
        "/",
        "WHY",
    ]
    assert hello[:4] == ["hello-a", "vision", "training", "running"]
    assert hello[-1] == "n1"
    assert big[3] == "held"
    assert " ".join(big[-6:]) == "at its limit of 8 GPUs"
    assert evil[0] == "evil\\x1b[2J-c"
    assert "\x1b" not in out


async def test_ps_counts_the_tasks_of_a_sweep(world, headrace):
    trials = ({"lr": "1"}, {"lr": "2"}, {"lr": "3"})
    await in_log(
        world,
        requested("lr-x", kind_of_group="sweep", trials=trials),
        admitted("lr-x", tasks=3, tasks_parallel=2),
        *(admitted(f"lr-x/{index}", group="lr-x", index=index) for index in range(3)),
        placed("lr-x/0"),
        started("lr-x/0"),
        finished("lr-x/0"),
        placed("lr-x/1"),
        started("lr-x/1"),
    )
    _, out, _ = await headrace("ps")
    assert "sweep  running 1 · 1/3  1 × 0.5" in out
    _, out, _ = await headrace("ps", "--group", "lr-x")
    assert [line.split()[0] for line in out.splitlines()[1:]] == ["lr-x/0", "lr-x/1", "lr-x/2"]


@pytest.mark.parametrize(
    "words",
    [
        ["ps"],
        ["projects"],
        ["describe", "hello-a"],
        ["node", "list"],
        ["node", "describe", "n1"],
        ["events"],
    ],
)
async def test_every_reading_command_speaks_json_and_yaml(world, headrace, words):
    await in_log(world, joined(), *RUN)
    code, out, _ = await headrace(*words, "-o", "json")
    assert code == 0
    for text in out.splitlines() if words == ["events"] else [out]:
        json.loads(text)
    code, out, _ = await headrace(*words, "-o", "yaml")
    assert (code, "{" in out.splitlines()[0]) == (0, False)
    assert (await headrace(*words))[0] == 0
    assert (await headrace(*words, "-o", "wide"))[0] == 0


async def test_describe_tells_the_story_of_a_job(world, headrace):
    await in_log(world, joined(), *RUN, evicted(), released(again=True))
    _, out, _ = await headrace("describe", "hel")
    assert "decided by binpack  score=7" in out
    assert "stopped: reclaimed for big-b  by reclaim-over-quota  freed=500" in out
    assert "gave its places back, for another attempt" in out


SPENT = {
    "evictions_max": 20,
    "evictions_per_us": 3_600_000_000,
    "evictions_free_at_us": 86_400_000_000,
}


async def test_why_shows_what_placement_says_and_how_a_job_ended(world, headrace):
    said = Explanation(
        rule="no-room",
        text="needs 2 nodes with H100:8 each; 1 free now",
        job="hello-a",
        project="vision",
        position=1843,
        at_us=1,
        numbers={"waited_us": 38_000_000} | SPENT,
        excluded={"taken": 1},
        sooner="nodes: 1",
        starts_by_us=86_400_000_000,
        names={"budget": "research"},
    )

    async def answer(message):
        await world.bus.publish(message.reply, msgspec.json.encode(said))

    await world.bus.subscribe(subjects.WHY, answer)
    await in_log(world, requested(), admitted())
    _, out, _ = await headrace("why", "hel")
    lines = out.splitlines()
    assert lines.pop(2).startswith("  next    starts by ")
    assert lines.pop(3).startswith(
        "  budget  research may lose no more than 20 jobs per 1h00m; the"
    )
    assert lines[:4] == [
        "hello-a  waiting 38s   project vision",
        "  now     needs 2 nodes with H100:8 each; 1 free now",
        "  nodes   1 taken",
        "  sooner  nodes: 1 would start now",
    ]
    said_wide = (await headrace("why", "hello-a", "-o", "wide"))[1]
    assert (await headrace("why", "hello-a", "--verbose"))[1] == said_wide
    assert "rule    no-room" in said_wide
    code, out, _ = await headrace("why", "hello-a", "-o", "json")
    assert (code, msgspec.json.decode(out)["excluded"]) == (0, {"taken": 1})
    await in_log(world, finished(outcome="cancelled", reason="cancelled"))
    _, out, _ = await headrace("why", "hello-a")
    assert out.splitlines()[0] == "hello-a  cancelled   project vision"


async def test_who_cancelled_a_job_stays_known(world, headrace):
    event = JobCancelling(job="hello-a", project="vision", user="ada")
    end = finished(outcome="cancelled", reason="cancelled", message="stopped: cancelled")
    await in_log(world, *RUN, event, end)
    _, out, _ = await headrace("ps")
    assert out.splitlines()[1].endswith("cancelled by ada")


async def test_output_of_several_workers_says_whose_it_is(world, headrace):
    gang = placed()
    second = msgspec.structs.replace(gang.workers[0], rank=1, devices=())
    gang = msgspec.structs.replace(gang, workers=(gang.workers[0], second))
    agent = await Agent(world).start()
    agent.output |= {(1, 0): b"from zero\n", (1, 1): b"from one, unfinished"}
    agent.ended.add((1, 0))
    await in_log(world, requested(), admitted(), gang)
    _, out, _ = await headrace("logs", "hello-a")
    assert sorted(out.splitlines()) == ["0 | from zero", "1 | from one, unfinished"]
    _, out, _ = await headrace("logs", "hello-a", "-o", "json")
    pieces = [json.loads(line) for line in out.splitlines()]
    assert "".join(p.get("text", "") for p in pieces if not p.get("rank")) == "from zero\n"
    _, out, _ = await headrace("logs", "hello-a", "-o", "yaml")
    assert "text:" in out
    _, out, _ = await headrace("logs", "hello-a", "-o", "wide", "--rank", "0")
    assert out.splitlines() == ["hello-a 0.0 | from zero"]


async def test_a_tail_is_the_last_lines_of_each_process(world, headrace):
    gang = placed()
    second = msgspec.structs.replace(gang.workers[0], rank=1, devices=())
    gang = msgspec.structs.replace(gang, workers=(gang.workers[0], second))
    agent = await Agent(world).start()
    agent.output |= {(1, 0): b"one\ntwo\nthree\n", (1, 1): b"eins\nzwei\nbegun"}
    agent.ended |= {(1, 0), (1, 1)}
    await in_log(world, requested(), admitted(), gang)
    _, out, _ = await headrace("logs", "hello", "--tail", "2")
    assert out.splitlines() == ["0 | two", "0 | three", "1 | zwei", "1 | begun"]
    for words in (("--tail", "0"), ("--tail", "x"), ("--tail", "2", "-f")):
        code, _, err = await headrace("logs", "hello", *words)
        assert (code, err.count("\n")) == (2, 1)


async def test_events_are_lines_from_where_one_likes(world, headrace):
    await in_log(world, *SUCCEEDED)
    _, out, _ = await headrace("events", "--type", "gang.", "--job", "hello-a", "-o", "wide")
    assert [line.split()[2] for line in out.splitlines()] == ["gang.placed.v1", "gang.released.v1"]
    _, out, _ = await headrace("events", "--after", "8", "-o", "json")
    assert json.loads(out)["position"] == 9


async def test_events_are_sentences_that_fit_a_terminal(world, headrace, monkeypatch):
    monkeypatch.setattr("headrace.cli.following.columns", lambda: 80)
    ended = finished(
        outcome="failed", reason="error", message="exit code 3", exit_code=3, node="n1"
    )
    told = {"reason": "oom", "message": "used more than 8 GB"}
    exited = msgspec.structs.replace(worker_exited(), **told)
    await in_log(world, joined(), *RUN, exited, evicted(), released(again=True), ended)
    _, out, _ = await headrace("events", "--job", "hello-a")
    told = [line[23:] for line in out.splitlines()]
    assert max(map(len, out.splitlines())) <= 80
    assert told == [
        "hello-a  ada asked for it",
        "hello-a  was admitted",
        "hello-a  may compete for GPUs",
        "hello-a  attempt 1 was given n1",
        "hello-a  rank 0 started on n1",
        "hello-a  all of attempt 1 run, after 2.0 s",
        "hello-a  rank 0 ended on n1: oom: used more than 8 GB",
        "hello-a  is to stop: reclaimed for big-b",
        "hello-a  gave its places back, for another attempt",
        "hello-a  failed: exit 3 of rank 0 on n1, ran 3.0 s",
    ]
    _, out, _ = await headrace("describe", "hello-a")
    assert out.splitlines()[-1].endswith("  failed: exit 3 of rank 0 on n1, ran 3.0 s")
    assert "hello-a" not in out.splitlines()[-1]


async def test_a_reader_that_goes_away_is_no_failure(world, start):
    await in_log(world, *SUCCEEDED)
    program = await start("events", "--follow")
    await program.line()
    program._process.stdout._transport.close()
    await in_log(world, requested("late-z"))
    code = await asyncio.wait_for(program._process.wait(), TIMEOUT_S)
    assert code == 141
    assert await program._process.stderr.read() == b""


async def test_why_of_a_sweep_is_that_of_a_trial_that_waits(world, headrace):
    async def answer(message):
        said = Explanation(
            rule="room", text="no node is free", job=message.data.decode(), project="vision"
        )
        await world.bus.publish(message.reply, msgspec.json.encode(said))

    await world.bus.subscribe(subjects.WHY, answer)
    trials = ({"lr": "1"}, {"lr": "2"})
    await in_log(
        world,
        requested("lr-x", kind_of_group="sweep", trials=trials),
        admitted("lr-x", tasks=2, tasks_parallel=1),
        *(admitted(f"lr-x/{index}", group="lr-x", index=index) for index in range(2)),
        JobHeld(job="lr-x/0", project="vision", reason="waits for another task of its group"),
    )
    code, out, _ = await headrace("why", "lr-x")
    assert code == 0
    assert out.startswith("lr-x/1 ")
    assert "no node is free" in out
    line = next(line for line in (await headrace("ps"))[1].splitlines() if "lr-x" in line)
    assert "waiting 0/2" in line


async def test_what_cannot_run_today_is_said_without_many_words_before_it(world, headrace):
    warning = "accepted, but cannot run today: no node has 8 × H100"
    await in_log(world, requested("a-1"), admitted("a-1", warning=warning))
    assert "  cannot today: no node has 8 × H100\n" in (await headrace("ps"))[1]
    assert "  wants   0.5 GPUs   " in (await headrace("describe", "a-1"))[1]


async def test_the_last_job_is_ones_own_latest(world, headrace):
    own = world.client()
    user = (await world.call(own.whoami)).user
    await in_log(
        world,
        *(requested("first-1", user=user), admitted("first-1", user=user)),
        *(requested("latest-2", user=user), admitted("latest-2", user=user)),
        *(finished("latest-2"), requested("hers-3"), admitted("hers-3")),
    )
    code, out, _ = await headrace("describe", "--last")
    assert (code, out.split()[0]) == (0, "latest-2")
    assert (await headrace("why", "--last"))[1].startswith("latest-2  succeeded")
    for words in (("describe",), ("why", "x", "--last"), ("logs",), ("outputs",)):
        code, _, err = await headrace(*words)
        assert (code, len(err.splitlines())) == (2, 1)
        assert "--last" in err

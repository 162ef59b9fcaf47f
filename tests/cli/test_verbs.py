"""The program as people run it, against a gateway whose services the test plays."""

import asyncio
import json
import os
import signal
import stat
import sys

import pytest
from tests.gateway.histories import (
    RUN,
    SUCCEEDED,
    admitted,
    eligible,
    evicted,
    finished,
    joined,
    placed,
    released,
    requested,
    started,
    worker_exited,
    worker_started,
)
from tests.gateway.test_streams import Agent
from tests.gateway.world import TOKEN

from headrace.cli.__main__ import main
from headrace.events import Refusal
from headrace.events.jobs import JobCancelling, JobHeld, JobRefused

TIMEOUT_S = 20.0


class Program:
    """One run of the command line."""

    def __init__(self, process):
        self._process = process

    async def line(self) -> str:
        """The next line it prints."""
        line = await asyncio.wait_for(self._process.stdout.readline(), TIMEOUT_S)
        return line.decode().rstrip("\n")

    async def end(self) -> tuple[int, str, str]:
        """Its exit code, and what else it printed on stdout and stderr."""
        out, err = await asyncio.wait_for(self._process.communicate(), TIMEOUT_S)
        assert "Traceback" not in err.decode()
        return self._process.returncode, out.decode(), err.decode()

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)


@pytest.fixture
def start(world, tmp_path):
    async def started_program(*words, stdin=None, **env):
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "headrace.cli", *words),
            stdin=asyncio.subprocess.PIPE if stdin is not None else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=tmp_path,
            env={
                "PATH": os.environ["PATH"],
                "HEADRACE_URL": world.url,
                "HEADRACE_TOKEN": TOKEN,
                "XDG_CONFIG_HOME": str(tmp_path),
                **env,
            },
        )
        if stdin is not None:
            process.stdin.write(stdin)
            process.stdin.close()
        return Program(process)

    return started_program


@pytest.fixture
def headrace(world, start, tmp_path, capsys, monkeypatch):
    """A whole run: in this process where that is the same, which saves the start."""
    monkeypatch.setenv("HEADRACE_URL", world.url)
    monkeypatch.setenv("HEADRACE_TOKEN", TOKEN)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    def performed(words):
        monkeypatch.setattr("sys.argv", ["headrace", *words])
        try:
            return main()
        except SystemExit as error:
            return error.code

    async def ended(*words, stdin=None, **env):
        if stdin is not None:
            program = await start(*words, stdin=stdin, **env)
            return await program.end()
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        code = await asyncio.wait_for(asyncio.to_thread(performed, words), TIMEOUT_S)
        return code, *capsys.readouterr()

    return ended


async def in_log(world, *events):
    position = await world.append(*events)
    await world.gateway.follower.reached(position)


def accept(world, verb, **answer):
    return world.answer(verb, lambda _: {"accepted": True, "position": 0, **answer})


async def test_run_follows_a_command_to_its_end_and_exits_as_it_does(world, start):
    agent = await Agent(world).start()
    agent.output[1, 0] = b"my GPU: 0\n"
    agent.ended.add((1, 0))
    await accept(world, "job.submit", job="hello-a")
    await in_log(world, joined(), requested(), admitted())
    program = await start("run", "-p", "vision", "--gpus", "0.5", "-n", "hello", "--", "nvidia-smi")
    assert await program.line() == "hello-a  submitted  project vision"
    await in_log(world, eligible(), placed(), worker_started(), started())
    placement = "placed on n1, GPU 0 (0.5, enforcement: none, simulated)"
    assert await program.line() == f"hello-a  {placement}  after 2.0 s"
    assert await program.line() == "hello-a | my GPU: 0"
    ended = finished(outcome="failed", reason="error", message="exit code 3", exit_code=3)
    await in_log(world, worker_exited(), released(), ended)
    code, out, err = await program.end()
    assert (code, out, err) == (3, "hello-a  failed  exit 3  ran 3.0 s  waited 0.00 s\n", "")


async def test_run_sends_the_job_file_that_says_the_same(world, headrace):
    await accept(world, "job.submit", job="python3-a")
    words = [
        "run",
        "-d",
        "--gpus",
        "H100:2",
        "--nodes",
        "2",
        "--cpu",
        "4",
        "--memory",
        "8GB",
        "--per-gpu",
        "--max-duration",
        "2h",
    ]
    words += ["-e", "A=1", "-e", "COPIED", "--secret", "KEY", "--workdir", ".", "--"]
    code, out, _ = await headrace(*words, "/usr/bin/python3", "-c", "print(1)", COPIED="here")
    assert code == 0
    document = json.loads(world.asked[0].data)
    assert document.pop("workdir").startswith("/")
    assert document == {
        "name": "python3",
        "project": "default",
        "command": ["/usr/bin/python3", "-c", "print(1)"],
        "nodes": "2",
        "resources": {"gpus": "H100:2", "cpu": "4", "memory": "8GB"},
        "processes_per_node": "per-gpu",
        "max_duration": "2h",
        "env": {"A": "1", "COPIED": "here"},
        "secrets": ["KEY"],
    }
    assert out == "python3-a  submitted  2 nodes × H100:2  project default\n"


async def test_an_interrupted_run_leaves_the_job_running_and_says_how_to_end_it(world, start):
    await accept(world, "job.submit", job="hello-a")
    await in_log(world, requested(), admitted())
    program = await start("run", "-p", "vision", "--", "sleep", "60")
    await program.line()
    await in_log(world, JobHeld(job="hello-a", project="vision", reason="vision is at its limit"))
    assert await program.line() == "hello-a  held: vision is at its limit"
    program.interrupt()
    code, _, err = await program.end()
    assert code == 130
    assert "hello-a runs on; headrace cancel hello-a ends it" in err


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (finished(outcome="cancelled", reason="cancelled"), 121),
        (finished(outcome="failed", reason="timeout", exit_code=143), 124),
        (finished(outcome="failed", reason="start-failed", message="no such file"), 125),
        (finished(outcome="failed", reason="error", exit_code=137), 137),
        (finished(), 0),
        (
            JobRefused(job="hello-a", project="vision", refusal=Refusal(field="x", rule="no")),
            120,
        ),
    ],
)
async def test_waiting_for_a_job_exits_by_how_it_ended(world, headrace, tmp_path, end, code):
    (tmp_path / "job.yaml").write_text("name: hello\nproject: vision\ncommand: [a]\n")
    await accept(world, "job.submit", job="hello-a")
    await in_log(world, requested(), end)
    assert (await headrace("submit", "--wait", "job.yaml"))[0] == code


async def test_a_reclaimed_job_is_followed_into_its_next_attempt(world, headrace, tmp_path):
    agent = await Agent(world).start()
    agent.output |= {(1, 0): b"one\n", (2, 0): b"two\n"}
    agent.ended |= {(1, 0), (2, 0)}
    (tmp_path / "job.yaml").write_text("name: hello\nproject: vision\ncommand: [a]\n")
    await accept(world, "job.submit", job="hello-a")
    await in_log(world, joined(), *RUN, evicted(), released(again=True))
    await in_log(world, placed(attempt=2), started(attempt=2), finished(attempt=2))
    code, out, _ = await headrace("submit", "--follow", "job.yaml")
    assert code == 0
    assert [line.partition("  after")[0] for line in out.splitlines()] == [
        "hello-a  submitted  project vision",
        "hello-a  placed on n1, GPU 0 (0.5, enforcement: none, simulated)",
        "hello-a  stopping: reclaimed for big-b",
        "hello-a | one",
        "hello-a  waits again, for another attempt",
        "hello-a  placed on n1, GPU 0 (0.5, enforcement: none, simulated)",
        "hello-a | two",
        "hello-a  succeeded  exit 0  ran 3.0 s  waited 0.00 s",
    ]


async def test_a_refusal_is_one_line_and_its_own_exit_code(world, headrace):
    refusal = {"field": "nodes", "value": "4", "rule": "too many"}
    line = "refused: nodes = 4 — too many; nodes: 2 fits"
    await world.answer(
        "job.submit",
        lambda _: {"accepted": False, "position": 0, "refusal": refusal, "message": line},
    )
    assert await headrace("run", "--", "true") == (120, "", f"{line}\n")


async def test_files_are_checked_with_their_lines_before_anything_is_sent(
    world, headrace, tmp_path
):
    (tmp_path / "good.yaml").write_text("name: a\ncommand: [a]\n---\nname: b\ncommand: [b]\n")
    (tmp_path / "bad.yaml").write_text("name: a\ncomand: [a]\n")
    await accept(world, "job.submit", job="a-1")
    code, out, err = await headrace("submit", "good.yaml", "bad.yaml")
    assert (code, out, world.asked) == (120, "", [])
    assert err == "refused: comand — unknown field; did you mean command? (line 2)\n"
    assert (await headrace("submit", "good.yaml"))[0] == 0
    assert [json.loads(message.data)["name"] for message in world.asked] == ["a", "b"]


async def test_a_folder_of_a_job_file_is_where_the_file_is(world, headrace, tmp_path):
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "job.yaml").write_text("name: a\nworkdir: .\ncommand: [a]\n")
    await accept(world, "job.submit", job="a-1")
    await headrace("submit", "jobs/job.yaml")
    assert json.loads(world.asked[0].data)["workdir"] == str(tmp_path / "jobs")


async def test_a_repeated_key_is_a_key_per_document(world, headrace):
    await accept(world, "job.submit", job="a-1")
    text = b"name: a\ncommand: [a]\n---\nname: b\ncommand: [b]\n"
    await headrace("submit", "--key", "etl-1", "-", stdin=text)
    assert [message.headers["ce-id"] for message in world.asked] == ["etl-1", "etl-1-1"]


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
    assert "gang.released.v1" in out


async def test_cancel_takes_several_jobs_and_goes_on_after_an_unknown_one(world, headrace):
    await in_log(world, requested("a-1"), requested("b-2"))
    await accept(world, "job.cancel")
    code, out, err = await headrace("cancel", "a-1", "zzz", "b-2")
    assert code == 1
    assert out == "a-1  cancelling\nb-2  cancelling\n"
    assert "no job zzz" in err


async def test_who_cancelled_a_job_stays_known(world, headrace):
    event = JobCancelling(job="hello-a", project="vision", user="ada")
    end = finished(outcome="cancelled", reason="cancelled", message="stopped: cancelled")
    await in_log(world, *RUN, event, end)
    _, out, _ = await headrace("ps")
    assert out.splitlines()[1].endswith("cancelled by ada")


async def test_output_of_several_workers_says_whose_it_is(world, headrace):
    import msgspec

    gang = placed()
    second = msgspec.structs.replace(gang.workers[0], rank=1, devices=())
    gang = msgspec.structs.replace(gang, workers=(gang.workers[0], second))
    agent = await Agent(world).start()
    agent.output |= {(1, 0): b"from zero\n", (1, 1): b"from one, unfinished"}
    agent.ended.add((1, 0))
    await in_log(world, requested(), admitted(), gang)
    _, out, _ = await headrace("logs", "hello-a")
    assert sorted(out.splitlines()) == ["0 | from zero", "1 | from one, unfinished"]


async def test_events_are_lines_from_where_one_likes(world, headrace):
    await in_log(world, *SUCCEEDED)
    _, out, _ = await headrace("events", "--type", "gang.", "--job", "hello-a")
    assert [line.split()[2] for line in out.splitlines()] == ["gang.placed.v1", "gang.released.v1"]
    _, out, _ = await headrace("events", "--after", "8", "-o", "json")
    assert json.loads(out)["position"] == 9


async def test_a_secret_is_read_from_stdin_and_shown_nowhere(world, headrace):
    await accept(world, "secret.set", version="v1")
    code, out, err = await headrace("secret", "set", "KEY", "-p", "vision", stdin=b"hunter2\n")
    assert (code, out) == (0, "secret KEY set  project vision  version v1\n")
    assert "hunter2" not in out + err
    assert b"hunter2" not in world.asked[0].data
    assert (await headrace("secret", "set", "KEY", stdin=b""))[0] == 120


async def test_apply_tells_what_became_of_each_document(world, headrace):
    text = b"type: department\nname: research\n---\ntype: project\nname: ads\n"
    changes = iter(["created", "unchanged"])
    await world.answer(
        "queue.apply", lambda _: {"accepted": True, "position": 0, "change": next(changes)}
    )
    code, out, _ = await headrace("apply", "-f", "-", stdin=text)
    assert (code, out) == (0, "department research created · project ads unchanged\n")


async def test_a_publisher_gets_a_credential_file_that_only_its_owner_reads(
    world, headrace, tmp_path
):
    await accept(world, "publisher.create", jwt="eyJ.a.b")
    code, out, _ = await headrace("publisher", "create", "etl", "-p", "ads")
    path = tmp_path / "etl.creds"
    text = path.read_text()
    asked = json.loads(world.asked[0].data)
    assert code == 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "eyJ.a.b" in text
    assert "\nSU" in text
    assert asked["public_key"].startswith("U")
    assert "nats --creds etl.creds req headrace.request.ads.job.submit" in out
    assert (await headrace("publisher", "create", "etl", "-p", "ads"))[0] == 1
    assert path.read_text() == text


async def test_erasing_asks_first(world, headrace):
    await accept(world, "project.erase")
    assert (await headrace("erase", "vision"))[0] == 2
    assert world.asked == []
    code, out, _ = await headrace("erase", "vision", "--yes")
    assert (code, out) == (0, "project vision erased at position 0\n")


async def test_nodes_are_cordoned_by_name(world, headrace):
    await in_log(world, joined())
    await accept(world, "node.change")
    assert (await headrace("node", "cordon", "n1"))[1] == "n1 cordoned\n"
    assert json.loads(world.asked[0].data) == {"node": "n1", "change": "cordon"}
    assert (await headrace("node", "cordon"))[0] == 2


async def test_a_reader_that_goes_away_is_no_failure(world, start):
    await in_log(world, *SUCCEEDED)
    program = await start("events", "--follow")
    await program.line()
    program._process.stdout._transport.close()
    await in_log(world, requested("late-z"))
    code = await asyncio.wait_for(program._process.wait(), TIMEOUT_S)
    assert code == 141
    assert await program._process.stderr.read() == b""


async def test_an_unreachable_platform_has_its_own_exit_code(headrace):
    code, _, err = await headrace("ps", HEADRACE_URL="http://127.0.0.1:9")
    assert code == 122
    assert err == (
        "headrace: http://127.0.0.1:9: nobody listens there (headrace up starts a platform)\n"
    )


async def test_a_wrong_token_is_said_in_one_line(headrace):
    code, _, err = await headrace("ps", HEADRACE_TOKEN="wrong")
    assert (code, err) == (1, "headrace: the token is not valid here\n")

"""Jobs submitted, followed and ended by people."""

import asyncio
import json
import socket

import msgspec
import pytest
from tests.cli.program import accept, in_log
from tests.client.test_connection import Server, event, stream
from tests.gateway.histories import (
    RUN,
    admitted,
    eligible,
    evicted,
    finished,
    joined,
    placed,
    project_made,
    released,
    requested,
    started,
    worker_exited,
    worker_started,
)
from tests.gateway.test_streams import Agent

from headrace.bus import subjects
from headrace.cli.follow import follow_job
from headrace.client import Client
from headrace.events import Refusal
from headrace.events.attempts import AttemptExited
from headrace.events.jobs import JobHeld, JobRefused
from headrace.events.pauses import JobPaused, JobPausing
from headrace.scheduling.explanation import Explanation


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
    await in_log(world, project_made("default"))
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
    words += ["--setup", "pip install ."]
    words += ["-e", "A=1", "-e", "COPIED", "--secret", "KEY", "--workdir", ".", "--"]
    code, out, _ = await headrace(*words, "/usr/bin/python3", "-c", "print(1)", COPIED="here")
    assert code == 0
    document = json.loads(world.asked[0].data)
    assert document.pop("workdir").startswith("sha256:")
    assert document == {
        "name": "python3",
        "project": "default",
        "command": ["/usr/bin/python3", "-c", "print(1)"],
        "nodes": "2",
        "resources": {"gpus": "H100:2", "cpu": "4", "memory": "8GB"},
        "processes_per_node": "per-gpu",
        "max_duration": "2h",
        "setup": "pip install .",
        "env": {"A": "1", "COPIED": "here"},
        "secrets": ["KEY"],
    }
    assert out == "python3-a  submitted  2 nodes × H100:2  project default\n"


async def test_run_says_of_a_container_what_its_job_file_would(world, headrace):
    await in_log(world, project_made("default"))
    await accept(world, "job.submit", job="train-a")
    words = ["--image", "org/train:1", "--framework", "pytorch",
             "--pool", "a100", "--pool", "h100", "-v", "data:/data:ro", "--output", "model"]  # fmt: skip
    code, _, err = await headrace("run", "-d", *words, "--", "train")
    assert (code, err) == (0, "")
    assert json.loads(world.asked[0].data) == {
        "name": "train",
        "project": "default",
        "command": ["train"],
        "image": "org/train:1",
        "framework": "pytorch",
        "pools": ["a100", "h100"],
        "volumes": ["data:/data:ro"],
        "outputs": ["model"],
    }


async def test_run_says_as_much_as_it_is_asked_to(world, start, headrace):
    agent = await Agent(world).start()
    agent.output[1, 0] = b"my GPU: 0\nlast"
    agent.ended.add((1, 0))
    await accept(world, "job.submit", job="hello-a")
    ended = finished(outcome="failed", reason="error", message="exit code 3", exit_code=3)
    await in_log(world, joined(), project_made("vision"), *RUN, worker_exited(), released(), ended)
    words = ("-p", "vision", "-n", "hello", "--", "train")
    code, out, err = await headrace("run", "-q", *words)
    assert (code, out) == (3, "my GPU: 0\nlast\n")
    assert err == "hello-a  failed  exit 3  ran 3.0 s  waited 0.00 s\n"
    assert await headrace("run", "-q", "-d", *words) == (0, "hello-a\n", "")
    code, out, err = await headrace("run", "-o", "json", *words)
    row = json.loads(out)
    assert (code, row["job"], row["state"], row["exit_code"], err) == (
        3,
        "hello-a",
        "failed",
        3,
        "",
    )
    code, out, _ = await headrace("run", "-d", "-o", "json", *words)
    answer = json.loads(out)
    assert (code, answer["job"], answer["project"]) == (0, "hello-a", "vision")
    assert answer.keys() == {"job", "project", "position", "key", "warning"}


async def test_a_port_that_is_taken_here_is_said_in_one_line(world, headrace):
    await in_log(world, joined(), *RUN)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, out, err = await headrace("port-forward", "hello", f"{port}:80")
    assert (code, out) == (1, "")
    assert err == (
        f"headrace port-forward: cannot listen at 127.0.0.1:{port}: Address already in use; "
        "headrace port-forward hello 0:80 takes any free port\n"
    )


async def test_submit_says_of_several_files_which_one_is_wrong(world, headrace, tmp_path):
    await accept(world, "job.submit", job="hello-a")
    for name, text in (("good", "command: 'true'\nname: good"), ("bad", "comand: 'true'")):
        (tmp_path / f"{name}.yaml").write_text(text)
    code, out, err = await headrace("submit", "good.yaml", "bad.yaml")
    assert (code, out) == (120, "")
    assert err.rstrip().endswith("(bad.yaml)")
    assert err.startswith("refused: comand — unknown field; did you mean command? (line 1)")
    code, out, _ = await headrace("submit", "--dry-run", "good.yaml")
    assert (code, out) == (0, "good  understood, not submitted  project default\n")
    assert world.asked == []
    await in_log(world, project_made("default"))
    assert await headrace("submit", "-q", "good.yaml") == (0, "hello-a\n", "")


async def test_an_interrupted_run_leaves_the_job_running_and_says_how_to_end_it(world, start):
    await accept(world, "job.submit", job="hello-a")
    await in_log(world, requested(), admitted())
    program = await start("run", "-p", "vision", "--", "sleep", "60")
    await program.line()
    await in_log(world, JobHeld(job="hello-a", project="vision", reason="vision is at its limit"))
    assert await program.line() == "hello-a  held: vision is at its limit"
    await program.interrupt()
    code, _, err = await program.end()
    assert code == 130
    told = "hello-a waits on, and will run; headrace why hello-a says what for"
    assert f"{told}, headrace cancel hello-a ends it" in err


async def test_a_run_that_waits_says_what_for_and_when_that_is_another_thing(
    world, headrace, monkeypatch
):
    for name in ("FIRST_S", "EVERY_S"):
        monkeypatch.setattr(f"headrace.cli.waiting.{name}", 0.01)
    texts = ["1 free now", "2 free now", *["big-b comes first"] * 2]
    is_printed = asyncio.Event()  # as it asks once more

    async def answer(message):
        text = texts.pop(0) if texts else "big-b comes first"
        said = Explanation(rule="no-room", text=text, job="hello-a", project="vision")
        await world.bus.publish(message.reply, msgspec.json.encode(said))
        if not texts:
            is_printed.set()

    await world.bus.subscribe(subjects.WHY, answer)
    await accept(world, "job.submit", job="hello-a")
    await in_log(world, requested(), admitted(), eligible())
    running = asyncio.create_task(headrace("run", "-p", "vision", "--", "true"))
    await asyncio.wait_for(is_printed.wait(), 60)
    await in_log(world, finished())
    code, out, err = await running
    waits = [line for line in out.splitlines() if "waits: " in line]
    assert (code, err) == (0, "")
    assert waits == ["hello-a  waits: 1 free now", "hello-a  waits: big-b comes first"]


def test_a_lost_gateway_is_said_before_it_is_given_up_and_that_the_job_may_run_on(
    capsys, monkeypatch
):
    monkeypatch.setattr("headrace.client.resuming.RETRY_S", 0.001)
    gateway = Server(stream(event(5)))
    assert follow_job(Client(gateway.url), "hello-a") == 122
    nobody = f"{gateway.url}: nobody listens there (headrace up starts a platform)"
    assert capsys.readouterr().err.splitlines() == [
        f"headrace: the connection is lost and tried again: {nobody}",
        f"headrace: {nobody}; hello-a may run on: headrace attach hello-a finds it again",
    ]


async def test_interrupted_logs_leave_the_job_running_and_say_how_to_end_it(world, start):
    agent = await Agent(world).start()
    agent.output[1, 0] = b"my GPU: 0\n"
    await in_log(world, joined(), *RUN)
    program = await start("logs", "-f", "hello-a")
    assert await program.line() == "my GPU: 0"
    await program.interrupt()
    code, _, err = await program.end()
    assert (code, err) == (130, "\nhello-a runs on; headrace cancel hello-a ends it\n")
    agent.ended.add((1, 0))
    await in_log(world, worker_exited(), released(), finished())


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
    lines = [line.partition("  after")[0] for line in out.splitlines()]
    lines.remove("hello-a  stopping: reclaimed for big-b")  # said while the worker still writes
    assert lines == [
        "hello-a  submitted  project vision",
        "hello-a  placed on n1, GPU 0 (0.5, enforcement: none, simulated)",
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


async def test_a_folder_for_an_unknown_project_is_refused_as_its_job_would_be(world, headrace):
    await in_log(world, project_made("vision"))
    code, out, err = await headrace("run", "-p", "visoin", "--workdir", ".", "--", "true")
    assert (code, out) == (120, "")
    assert err == "refused: project = visoin — does not exist; did you mean vision?\n"


async def test_files_are_checked_with_their_lines_before_anything_is_sent(
    world, headrace, tmp_path
):
    (tmp_path / "good.yaml").write_text("name: a\ncommand: [a]\n---\nname: b\ncommand: [b]\n")
    (tmp_path / "bad.yaml").write_text("name: a\ncomand: [a]\n")
    await accept(world, "job.submit", job="a-1")
    code, out, err = await headrace("submit", "good.yaml", "bad.yaml")
    assert (code, out, world.asked) == (120, "", [])
    assert err == "refused: comand — unknown field; did you mean command? (line 2) (bad.yaml)\n"
    assert (await headrace("submit", "good.yaml"))[0] == 0
    assert [json.loads(message.data)["name"] for message in world.asked] == ["a", "b"]


async def test_a_folder_of_a_job_file_is_where_the_file_is(world, headrace, tmp_path):
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "job.yaml").write_text("name: a\nworkdir: .\ncommand: [a]\n")
    await in_log(world, project_made("default"))
    await accept(world, "job.submit", job="a-1")
    await headrace("submit", "jobs/job.yaml")
    name = json.loads(world.asked[0].data)["workdir"].removeprefix("sha256:")
    files = world.gateway.keeper.of("default").tree(name).files
    assert [file.path for file in files] == ["job.yaml"]


async def test_a_repeated_key_is_a_key_per_document(world, headrace):
    await accept(world, "job.submit", job="a-1")
    text = b"name: a\ncommand: [a]\n---\nname: b\ncommand: [b]\n"
    await headrace("submit", "--key", "etl-1", "-", stdin=text)
    assert [message.headers["ce-id"] for message in world.asked] == ["etl-1", "etl-1-1"]


async def test_cancel_takes_several_jobs_and_goes_on_after_an_unknown_one(world, headrace):
    await in_log(world, requested("a-1"), requested("b-2"))
    await accept(world, "job.cancel")
    code, out, err = await headrace("cancel", "a-1", "zzz", "b-2")
    assert code == 1
    assert out == "a-1  cancelling\nb-2  cancelling\n"
    assert "no job zzz" in err


async def test_cancel_ends_all_that_fit_once_that_is_confirmed(world, headrace):
    user = (await world.call(world.client().whoami)).user
    mine = [requested(f"m-{i}", user=user) for i in range(7)]
    admits = [admitted(f"m-{i}", user=user) for i in range(7)]
    await in_log(world, *mine, *admits, requested("hers-1"), admitted("hers-1"), finished("m-6"))
    await in_log(world, project_made("vision"))
    await accept(world, "job.cancel")
    code, out, err = await headrace("cancel", "--mine", "--state", "waiting")
    assert (code, out, world.asked) == (1, "", [])
    assert "ends 6 jobs: m-0 m-1 m-2 m-3 m-4 m-5" in err
    code, out, _ = await headrace("cancel", "--mine", "--state", "waiting", "-p", "vision", "--yes")
    assert (code, out) == (0, "".join(f"m-{i}  cancelling\n" for i in range(6)))
    code, out, err = await headrace("cancel", "--state", "paused", "--yes")
    assert (code, out, err) == (0, "", "headrace cancel: no live job fits\n")
    for words in ((), ("m-1", "--mine")):
        code, _, err = await headrace("cancel", *words)
        assert (code, err.count("\n")) == (2, 1)


async def test_a_project_given_on_the_line_wins_over_the_files(world, headrace, tmp_path):
    (tmp_path / "job.yaml").write_text("name: a\nproject: vision\ncommand: [a]\n")
    await accept(world, "job.submit", job="a-1")
    await headrace("submit", "job.yaml", "-p", "ads")
    await headrace("submit", "job.yaml")
    assert [json.loads(message.data)["project"] for message in world.asked] == ["ads", "vision"]


async def test_pause_says_which_way_each_job_left_its_gpus_and_what_it_lost(world, headrace):
    await in_log(world, requested("a-1"), requested("b-2"))
    for job, way, lost in (
        ("a-1", "cuda-checkpoint", ""),
        ("b-2", "stop", "all that attempt 1 did"),
    ):
        await in_log(world, JobPausing(job=job, project="vision"))
        await in_log(world, JobPaused(job=job, project="vision", way=way, lost=lost))
    await accept(world, "job.pause")
    code, out, err = await headrace("pause", "a-1", "zzz", "b-2")
    assert code == 1
    assert out.splitlines() == [
        "a-1  pausing",
        "b-2  pausing",
        "a-1  paused by cuda-checkpoint",
        "b-2  paused by stop; lost: all that attempt 1 did",
    ]
    assert "no job zzz" in err


async def test_pause_waits_for_nothing_when_it_is_told_so_and_for_nobody_who_has_ended(
    world, headrace
):
    await in_log(world, requested("a-1"))
    await accept(world, "job.pause")
    assert (await headrace("pause", "-d", "a-1"))[:2] == (0, "a-1  pausing\n")
    await in_log(world, finished("a-1"))
    assert (await headrace("pause", "a-1"))[1] == "a-1  pausing\na-1  succeeded\n"


async def test_resume_takes_jobs_and_single_trials(world, headrace):
    await in_log(world, requested("a-1"), admitted("a-1/0", group="a-1"))
    await accept(world, "job.resume")
    assert (await headrace("resume", "a-1", "a-1/0"))[1] == "a-1  resuming\na-1/0  resuming\n"
    assert [json.loads(message.data)["job"] for message in world.asked] == ["a-1", "a-1/0"]


async def test_a_folder_that_is_not_here_is_refused_before_anything_is_sent(
    world, headrace, tmp_path
):
    (tmp_path / "file").touch()
    for given, rule in (("./gone", "is not there"), ("~/gone", "is not there"), ("file", "is no")):
        code, out, err = await headrace("run", "--workdir", given, "--", "true", HOME=str(tmp_path))
        assert (code, out) == (120, "")
        assert err.startswith(f"refused: workdir = {given} — {rule}")
        assert err.count("\n") == 1
    assert world.asked == []
    await in_log(world, project_made("default"))
    await accept(world, "job.submit", job="true-a")
    code, _, err = await headrace("run", "-d", "--workdir", "/gone/there", "--", "true")
    assert (code, err) == (0, "  /gone/there is not on this machine: each node must have it\n")
    assert json.loads(world.asked[0].data)["workdir"] == "/gone/there"


async def test_what_no_node_could_hold_is_said_and_not_followed(world, headrace):
    await in_log(world, project_made("default"))
    warning = "accepted, but cannot run today: no node has 8 × H100; there are T4"
    await accept(world, "job.submit", job="train-a", warning=warning)
    assert await headrace("run", "--gpus", "H100:8", "--", "train") == (
        123,
        f"train-a  submitted  project default\n  {warning}\n",
        (
            "train-a waits for nodes that could hold it; headrace attach train-a follows it, headrace"
            " cancel train-a ends it\n"
        ),
    )
    assert (await headrace("run", "-d", "--gpus", "H100:8", "--", "train"))[0] == 0


async def test_an_end_that_nobody_saw_has_no_exit_code(world, headrace):
    lost = AttemptExited(
        job="hello-a", project="vision", attempt=1, rank=0, node="n1", incarnation="i", report=2,
        reason="lost", message="its supervisor was killed",
    )  # fmt: skip
    end = finished(outcome="failed", reason="node-lost", message="its supervisor was killed")
    await in_log(world, joined(), *RUN, lost, released(), end)
    _, out, _ = await headrace("describe", "hello-a")
    assert "rank 0  n1  lost  its supervisor was killed" in " ".join(out.split(" "))
    assert "exit" not in out.partition("timeline")[0]
    await accept(world, "job.submit", job="hello-a")
    code, out, _ = await headrace("run", "-p", "vision", "--", "true")
    assert code == 125
    assert "failed  ran 3.0 s" in out

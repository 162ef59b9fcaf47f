"""Jobs of people, from the command line and the client to the GPUs and back."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from headrace.client.client import Client
from headrace.client.errors import Refused

EXAMPLES = Path(__file__).parents[2] / "examples"
NEW_PROJECT = "type: project\nname: {name}\ndepartment: research\ngpus: {{quota: 0}}\n"


@pytest.fixture(scope="module")
def fleet(platform):
    """The platform with the departments and projects of the examples."""
    platform.wait_ready()
    platform.headrace("apply", "-f", str(EXAMPLES / "fleet.yaml"))
    return platform


@pytest.fixture
def client(fleet):
    client = Client(fleet.url, fleet.token, "vision")
    yield client
    client.close()


def submitted(done: subprocess.CompletedProcess[str]) -> str:
    """The id in the line that `run` and `submit` print first."""
    return done.stdout.split()[0]


def test_a_followed_command_tells_where_it_runs_and_ends_as_the_command_does(fleet):
    done = fleet.headrace("run", "--gpus", "2", "--", "sh", "-c", "echo out; exit 7", check=False)
    lines = done.stdout.splitlines()
    job = submitted(done)
    assert done.returncode == 7
    assert lines[0].startswith(f"{job}  submitted  project default")
    assert "placed on n" in lines[1]
    assert f"{job} | out" in lines
    assert lines[-1].startswith(f"{job}  failed  exit 7")


def test_a_command_killed_by_a_signal_ends_as_a_shell_would_say_it(fleet):
    done = fleet.headrace("run", "--gpus", "1", "--", "sh", "-c", "kill -TERM $$", check=False)
    assert done.returncode == 128 + 15


def test_a_job_that_runs_too_long_is_ended_with_its_own_code(fleet):
    wanted = ("--gpus", "1", "--max-duration", "1s")
    done = fleet.headrace("run", *wanted, "--", "sleep", "60", check=False)
    assert done.returncode == 124


POOL = """
type: pool
name: spot
nodes: {label: pool=spot}
topology: [zone, rack]
price: {H100: 2.10, currency: EUR, per: gpu_hour}
max_duration: 2h
"""
IN_POOL = """
name: pooled
project: ads
command: "true"
resources: {gpus: 1}
pools: [spot]
topology: {required: RACK}
"""


def test_a_pool_is_applied_and_jobs_are_held_to_it(fleet, tmp_path):
    pool, job = tmp_path / "pool.yaml", tmp_path / "job.yaml"
    pool.write_text(POOL)
    assert fleet.headrace("apply", str(pool)).stdout == "pool spot created\n"
    job.write_text(IN_POOL.replace("spot", "sport"))
    refused = fleet.headrace("submit", str(job), check=False)
    assert (refused.returncode, refused.stderr) == (
        120,
        "refused: pools = sport — there is no such pool; did you mean spot?\n",
    )
    job.write_text(IN_POOL)
    assert "did you mean rack?" in fleet.headrace("submit", str(job), check=False).stderr
    job.write_text(IN_POOL.replace("RACK", "rack"))
    done = fleet.headrace("submit", str(job))
    assert "no node is in that pool" in done.stdout
    spec = fleet.json("describe", submitted(done))["spec"]
    assert (spec["max_duration_us"], spec["gang"]["pools"]) == (7_200_000_000, ["spot"])
    waiting = fleet.json("why", submitted(done))
    assert (waiting["rule"], waiting["excluded"]) == (
        "no-such-gpu",
        {"outside its pools, volumes or labels": 2},
    )
    fleet.headrace("cancel", submitted(done))


def test_a_job_is_listed_described_and_its_output_kept(fleet):
    job = submitted(fleet.headrace("run", "--gpus", "0.5", "--", "echo", "kept"))
    (row,) = [row for row in fleet.json("ps", "--all") if row["job"] == job]
    assert (row["state"], row["exit_code"], row["attempt"]) == ("succeeded", 0, 1)
    assert "kept" in fleet.headrace("logs", job).stdout
    said = fleet.json("describe", job)
    assert [worker["milli"] for worker in said["attempts"][0]["workers"]] == [[500]]
    assert said["timeline"][0]["type"] == "job.requested.v1"
    assert fleet.headrace("describe", job).stdout.startswith(job)


def test_the_events_of_a_job_are_told_in_the_order_of_the_log(fleet):
    job = submitted(fleet.headrace("run", "--gpus", "1", "--", "true"))
    told = events(fleet, "--job", job)
    positions = [event["position"] for event in told]
    assert positions == sorted(positions)
    types = [event["type"] for event in told]
    life = [
        "job.requested.v1",
        "job.admitted.v1",
        "job.eligible.v1",
        "gang.placed.v1",
        "attempt.started.v1",
        "job.started.v1",
        "job.finished.v1",
    ]
    assert [kind for kind in types if kind in life] == life


def test_a_cancelled_job_stops_and_says_so(fleet, tmp_path):
    running = tmp_path / "running"
    script = f"touch {running}; sleep 600"
    job = submitted(fleet.headrace("run", "-d", "--gpus", "1", "--", "sh", "-c", script))
    fleet.wait(running.exists)
    fleet.headrace("cancel", job)
    assert fleet.ended(job)["state"] == "cancelled"


def test_a_sweep_is_one_object_with_its_trials_in_it(fleet, tmp_path):
    done = fleet.headrace("submit", "--wait", write(tmp_path, SWEEP))
    job = submitted(done)
    assert "6 trials, 3 at a time" in done.stdout
    said = fleet.json("describe", job)
    tried = {(task["state"], task.get("index", 0)) for task in said["tasks"]}
    assert tried == {("succeeded", index) for index in range(6)}
    fleet.wait(lambda: "best" in fleet.described(job)["job"], "the best trial to be told")
    assert re.search(r"best +tiny-\S+/[0-5] score=0.1\n", fleet.headrace("describe", job).stdout)
    outputs = [fleet.headrace("logs", f"{job}/{index}").stdout for index in range(6)]
    assert sorted(text.split()[-1] for text in outputs) == sorted(
        f"{lr}-{depth}" for lr in ("0.1", "0.2") for depth in (2, 4, 8)
    )


def test_the_distributed_example_trains_on_two_nodes_as_one_process_would(fleet):
    done = fleet.headrace("submit", "--follow", str(EXAMPLES / "distributed.yaml"))
    said = fleet.json("describe", submitted(done))
    assert sorted(worker["node"] for worker in said["attempts"][0]["workers"]) == ["n1", "n2"]
    assert "difference" in done.stdout


WIDE = """
name: wide
project: vision
command: sleep 600
nodes: 2
resources: {gpus: 8}
"""


def test_idle_gpus_are_lent_and_taken_back_with_the_reason(fleet, tmp_path):
    lent = submitted(fleet.headrace("submit", write(tmp_path, IDLE)))
    fleet.wait(lambda: held(fleet, "vision") == 16_000, "16 GPUs of vision")
    fleet.headrace("run", "--project", "ads", "--gpus", "8", "--", "true")
    types = ("gang.evicted", "gang.pausing.v1")
    said = [event["data"] for kind in types for event in events(fleet, "--type", kind)]
    evicted = [event for event in said if event["job"].startswith(lent) and event.get("gainer")]
    assert {event["reason"] for event in evicted} == {"reclaimed"}
    assert all(event["gainer"].startswith("true-") for event in evicted)
    again = fleet.json("describe", evicted[0]["job"])
    assert again["attempts"][0]["evicted"] == "reclaimed"
    wide = submitted(fleet.headrace("submit", write(tmp_path, WIDE)))
    fleet.wait(lambda: fleet.json("why", wide)["rule"] == "no-room", "a reason")
    told = fleet.headrace("why", wide).stdout
    assert "needs 2 nodes with GPU:8 each" in told
    assert "vision holds" in told
    fleet.headrace("cancel", wide)
    fleet.headrace("cancel", lent)
    fleet.wait(lambda: held(fleet, "vision") == 0, "vision giving back")


def test_a_secret_reaches_the_worker_and_nobody_else(fleet):
    fleet.headrace("secret", "set", "WORD", "--project", "vision", stdin="open sesame\n")
    command = ("--", "sh", "-c", 'test "$WORD" = "open sesame"')
    done = fleet.headrace("run", "--project", "vision", "--gpus", "1", "--secret", "WORD", *command)
    said = fleet.headrace("describe", submitted(done), "-o", "json").stdout
    assert "open sesame" not in said
    refused = fleet.headrace("run", "--gpus", "1", "-e", "API_TOKEN=x", "--", "true", check=False)
    assert refused.returncode == 120
    assert "secret" in refused.stderr


def test_an_erased_project_leaves_a_log_that_still_verifies(fleet, tmp_path):
    fleet.headrace("apply", "-f", write(tmp_path, NEW_PROJECT.format(name="forgotten")))
    fleet.headrace("secret", "set", "WORD", "--project", "forgotten", stdin="soon gone\n")
    wanted = ("--project", "forgotten", "--gpus", "1", "--secret", "WORD")
    job = submitted(fleet.headrace("run", *wanted, "--", "true"))
    fleet.headrace("erase", "forgotten", "--yes")
    fleet.verify()
    assert fleet.json("describe", job)["job"]["state"] == "succeeded"
    after = fleet.headrace("run", *wanted, "--", "true", check=False)
    assert after.returncode == 120, "its secrets are gone as well"
    assert "WORD" in after.stderr


def test_a_repeated_key_gets_the_first_answer_and_another_job_is_refused(client):
    job = {"name": "once", "project": "vision", "command": ["true"], "resources": {"gpus": 1}}
    first = client.submit(job, key="the-same")
    again = client.submit(job, key="the-same")
    assert (again.job, again.position) == (first.job, first.position)
    with pytest.raises(Refused, match=r"idempotency key the-same .* different"):
        client.submit({**job, "command": ["false"]}, key="the-same")
    assert [row.name for row in client.jobs(project="vision").jobs].count("once") == 1


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"comand": ["true"]}, "comand — .*did you mean command"),
        ({"resources": {"gpus": "1.5x"}}, "resources.gpus = 1.5x"),
        ({"resources": {"gpus": 1, "gpu": 2}}, "resources.gpu — .*did you mean"),
        ({"project": "vison"}, "project = vison — .*did you mean vision"),
        ({"name": "a.b*>"}, "name = "),
        ({"name": "../../etc"}, "name = "),
        ({"name": "a\x1b[2Jb"}, "name = "),
        ({"command": 7}, "command"),
        ({"nodes": 0}, "nodes"),
        ({"schedule": {"cron": "0 3 * * *"}}, "not yet"),
    ],
)
def test_what_cannot_be_understood_is_refused_in_one_clear_line(client, change, line):
    job = {"name": "bad", "project": "vision", "command": ["true"], "resources": {"gpus": 1}}
    with pytest.raises(Refused, match=f"^refused: .*{line}") as refused:
        client.submit(job | change)
    assert str(refused.value).isprintable()


def test_what_no_node_can_hold_is_explained(fleet):
    done = fleet.headrace("run", "-d", "--gpus", "9", "--", "true", check=False)
    assert "8" in done.stdout + done.stderr, "how many a node has"
    if done.returncode == 0:
        fleet.headrace("cancel", submitted(done))


def test_every_decision_is_derived_again_byte_for_byte(fleet):
    said = fleet.verify()
    assert "0 gaps" in said
    assert "reproduced byte for byte" in said


def write(folder: Path, text: str) -> str:
    """A file with this in it."""
    path = folder / "file.yaml"
    path.write_text(text)
    return str(path)


def events(fleet, *wanted: str) -> list[dict]:
    """Events of the log, one JSON object a line."""
    lines = fleet.headrace("events", *wanted, "-o", "json").stdout.splitlines()
    return [json.loads(line) for line in lines]


def held(fleet, project: str) -> int:
    """Thousandths of GPUs that the project's jobs hold now."""
    rows = fleet.json("projects")
    return next(row.get("held_milli", 0) for row in rows if row["project"] == project)


SWEEP = """
name: tiny
project: vision
command: |
  echo "${{ params.lr }}-${{ params.depth }}"
  python -c 'import os; from headrace.client import report as r; r(score=float(os.environ["HEADRACE_PARAM_LR"]), extra=1)'
resources: {gpus: 0.25}
sweep:
  objective: {metric: score, goal: min}
  method: grid
  params: {lr: ["0.1", "0.2"], depth: [2, 4, 8]}
  parallel: 3
"""

IDLE = """
name: lent
project: vision
command: [sleep, "600"]
resources: {gpus: 1}
array: 0..15
"""

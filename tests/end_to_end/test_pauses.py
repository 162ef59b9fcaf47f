"""A job leaves its GPU to another and goes on afterwards, on the whole platform."""

import json
import os
from pathlib import Path

import pytest

from headrace.node_agent.folders import read_intent

COUNTS = (
    "import itertools, os, time; print(os.getpid())\nfor n in itertools.count(): time.sleep(0.02)"
)


@pytest.fixture(scope="module")
def fleet(platform):
    platform.wait_ready()
    return platform


def state_of(fleet, job):
    return fleet.described(job)["job"]["state"]


def pids_of(fleet, job):
    """Its processes, as the machine numbers them."""
    attempts = fleet.layout.nodes.glob(f"*/attempts/{job}.*")
    intents = [intent for folder in attempts if (intent := read_intent(folder)) is not None]
    return [pid for intent in intents for pid in intent.pids]


def test_a_sweep_is_paused_and_resumed_with_its_trials(fleet, tmp_path):
    file = tmp_path / "sweep.yaml"
    asked = {"name": "tries", "command": ["python3", "-u", "-c", COUNTS]}
    sweep = {"method": "grid", "params": {"lr": [1, 2, 3]}, "parallel": 2}
    file.write_text(json.dumps(asked | {"resources": {"gpus": 1}, "sweep": sweep}))
    job = fleet.headrace("submit", str(file)).stdout.split()[0]
    trials = [f"{job}/{index}" for index in range(3)]
    fleet.wait(lambda: [state_of(fleet, t) for t in trials].count("running") == 2, "two run")

    told = fleet.headrace("pause", job).stdout.splitlines()
    assert told[1] == f"{job}  paused: 1 before they ran, 2 by cuda-checkpoint"
    assert {state_of(fleet, trial) for trial in trials} == {"paused"}

    fleet.headrace("resume", job)
    fleet.wait(lambda: [state_of(fleet, t) for t in trials].count("running") == 2, "two run again")
    fleet.headrace("cancel", job)
    assert fleet.ended(job)["state"] == "cancelled"


def is_stopped(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def test_a_paused_job_frees_its_gpus_and_goes_on_as_the_same_process(fleet, tmp_path):
    file = tmp_path / "job.yaml"
    asked = {"name": "counts", "command": ["python3", "-u", "-c", COUNTS], "nodes": 2}
    file.write_text(json.dumps(asked | {"resources": {"gpus": 8}}))
    job = fleet.headrace("submit", str(file)).stdout.split()[0]
    fleet.wait(lambda: state_of(fleet, job) == "running", "it runs")
    fleet.wait(lambda: len(pids_of(fleet, job)) == 2, "its processes' ids")
    pids = pids_of(fleet, job)

    assert fleet.headrace("pause", job).stdout.splitlines() == [
        f"{job}  pausing",
        f"{job}  paused by cuda-checkpoint",
    ]
    assert all(is_stopped(pid) for pid in pids)
    said = fleet.described(job)
    assert said["attempts"][0]["paused"] == "cuda-checkpoint"
    assert not said["job"].get("held_milli")
    assert "headrace resume" in fleet.headrace("why", job).stdout

    other = fleet.headrace("run", "--gpus", "8", "--", "true")
    assert "succeeded" in other.stdout

    fleet.headrace("resume", job)
    fleet.wait(lambda: state_of(fleet, job) == "running", "it runs again")
    fleet.wait(lambda: not any(is_stopped(pid) for pid in pids), "its processes go on")
    assert all(os.path.exists(f"/proc/{pid}") for pid in pids)
    assert fleet.described(job)["job"]["attempt"] == 1
    assert fleet.headrace("resume", job, check=False).stderr == (
        f"refused: job = {job} — is not paused\n"
    )
    fleet.headrace("cancel", job)
    assert fleet.ended(job)["state"] == "cancelled"

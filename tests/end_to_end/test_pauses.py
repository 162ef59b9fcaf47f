"""A job leaves its GPU to another and goes on afterwards, on the whole platform."""

import json
import os
from pathlib import Path

import pytest

COUNTS = (
    "import itertools, os, time; print(os.getpid())\nfor n in itertools.count(): time.sleep(0.02)"
)


@pytest.fixture(scope="module")
def fleet(platform):
    platform.wait_ready()
    return platform


def state_of(fleet, job):
    return fleet.json("describe", job)["job"]["state"]


def pids_of(fleet, job):
    """What each of its processes wrote."""
    return [int(line.split()[-1]) for line in fleet.headrace("logs", job).stdout.splitlines()]


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

    assert fleet.headrace("pause", job).stdout == f"{job}  pausing\n"
    fleet.wait(lambda: state_of(fleet, job) == "paused", "it is paused")
    assert all(is_stopped(pid) for pid in pids)
    said = fleet.json("describe", job)
    assert said["attempts"][0]["paused"] == "cuda-checkpoint"
    assert not said["job"].get("held_milli")
    assert "headrace resume" in fleet.headrace("why", job).stdout

    other = fleet.headrace("run", "--gpus", "8", "--", "true")
    assert "succeeded" in other.stdout

    fleet.headrace("resume", job)
    fleet.wait(lambda: state_of(fleet, job) == "running", "it runs again")
    assert not any(is_stopped(pid) for pid in pids)
    assert all(os.path.exists(f"/proc/{pid}") for pid in pids)
    assert fleet.json("describe", job)["job"]["attempt"] == 1
    assert fleet.headrace("resume", job, check=False).stderr == (
        f"refused: job = {job} — is not paused\n"
    )
    fleet.headrace("cancel", job)
    assert fleet.ended(job)["state"] == "cancelled"
    fleet.verify()

"""Gangs that begin again, on the whole platform: from what they saved, or on a larger GPU."""

from __future__ import annotations

import re
from pathlib import Path

from .conftest import Platform

TRAIN = """
import json, os, pathlib, signal, socket, sys, time
HELD_AT = {"1": 10, "2": 20}  # where an attempt waits to be interrupted
attempt, rank = os.environ["HEADRACE_ATTEMPT"], os.environ["HEADRACE_RANK"]
saved = pathlib.Path(os.environ["SAVED"])
head = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
signal.signal(signal.SIGUSR1, lambda *_: sys.exit(143))

def other() -> socket.socket:
    if rank == "0":
        return socket.create_server(head).accept()[0]
    while True:
        try:
            return socket.create_connection(head)
        except OSError:
            time.sleep(0.05)

step, weight = json.loads(saved.read_text()) if saved.exists() else (0, 1.0)
print("begins at", step, "as", os.getpid(), flush=True)
peer = other()
lines = peer.makefile()
while step < 30:
    while step == HELD_AT.get(attempt):
        time.sleep(0.05)
    mine = (int(rank) + 1) / (step + weight)
    peer.sendall((mine.hex() + chr(10)).encode())
    weight, step = weight * 0.9 + mine + float.fromhex(lines.readline()), step + 1
    if rank == "0":
        new = saved.with_suffix(".new")
        new.write_text(json.dumps([step, weight]))
        new.rename(saved)
print("weight", repr(weight), flush=True)
"""
JOB = """
name: saved
project: vision
workdir: {folder}
command: python3 train.py
nodes: 2..3
resources: {{gpus: 8}}
env: {{SAVED: {folder}/../saved.json}}
checkpoint: {{dir: {folder}, signal: USR1, grace: 5s}}
retry: {{on: [error], attempts: 2}}
"""
OUT_OF_MEMORY = """
case $CUDA_VISIBLE_DEVICES in
    *,*) echo fits;;
    *) echo "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB" >&2; exit 1;;
esac
"""
LARGER = """
name: larger
resources: {gpus: ["H100:1", "H100:2"]}
retry: {on: [oom], attempts: 2}
command: [bash, grow.sh]
workdir: .
"""


def uninterrupted() -> float:
    weight = 1.0
    for step in range(30):
        weight = weight * 0.9 + 1 / (step + weight) + 2 / (step + weight)
    return weight


def test_a_gang_goes_on_from_its_checkpoint_after_a_crash_and_after_its_preemption(
    platform: Platform, tmp_path: Path
) -> None:
    fleet = Path(__file__).parents[2] / "examples" / "fleet.yaml"
    platform.headrace("apply", "-f", str(fleet))
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "train.py").write_text(TRAIN)
    (tmp_path / "job.yaml").write_text(JOB.format(folder=folder))
    job = platform.headrace("submit", str(tmp_path / "job.yaml")).stdout.split()[0]

    def is_at(step: int) -> bool:
        saved = tmp_path / "saved.json"
        return saved.exists() and saved.read_text().startswith(f"[{step},")

    platform.wait(lambda: is_at(10), "ten steps")
    said = platform.headrace("logs", job, "--rank", "1").stdout
    pid = said.rpartition(" as ")[2].split()[0]  # as it is counted where the worker is
    killing = ("exec", job, "--rank", "1", "--", "kill", "-KILL", pid)
    platform.headrace(*killing, check=False)  # it may itself end with the attempt that it ends
    platform.wait(lambda: is_at(20), "ten more, by the second attempt")
    urgent = ("--project", "vision", "--priority", "high", "--gpus", "8")
    platform.headrace("run", *urgent, "--", "true")
    row = platform.ended(job)
    assert (row["state"], row["attempt"]) == ("succeeded", 3)
    attempts = platform.json("describe", job)["attempts"]
    assert [attempt.get("evicted", "") for attempt in attempts] == [
        "worker-failed",
        "preempted",
        "",
    ]
    told = [platform.headrace("logs", job, "--attempt", str(n)).stdout for n in (1, 2, 3)]
    begun = [
        {line.split(" as ")[0] for line in said.splitlines() if "begins" in line} for said in told
    ]
    assert [min(lines).split()[-1] for lines in begun] == ["0", "10", "20"]
    weights = [float(line.split()[-1]) for line in told[2].splitlines() if "weight" in line]
    assert len(weights) == 2
    assert all(abs(weight - uninterrupted()) < 1e-12 for weight in weights)


def test_a_job_that_ran_out_of_a_gpus_memory_gets_the_next_size_it_names(
    platform: Platform, tmp_path: Path
) -> None:
    (tmp_path / "grow.sh").write_text(OUT_OF_MEMORY)
    (tmp_path / "job.yaml").write_text(LARGER)
    job = platform.headrace("submit", str(tmp_path / "job.yaml")).stdout.split()[0]
    row = platform.ended(job)
    assert (row["state"], row["attempt"]) == ("succeeded", 2)
    assert platform.headrace("logs", job).stdout.endswith("fits\n")
    told = [
        line for line in platform.headrace("describe", job).stdout.splitlines() if "GPU" in line
    ]
    assert any("gpu-oom" in line for line in told)
    first, second = [line for line in told if "placed on" in line]
    assert re.search(r"attempt 1  placed on n\d, GPU \d\b", first)
    assert re.search(r"attempt 2  placed on n\d, GPUs \d \d\b", second)

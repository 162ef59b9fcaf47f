"""Slurm's commands, as scripts and programs call them."""

import json
import os
from pathlib import Path
from types import SimpleNamespace

from tests.cli.program import accept, in_log
from tests.gateway.histories import admitted, joined, placed, project_made, requested, started

from headrace.cli.follow import _unenforced
from headrace.documents.frameworks.slurm import number_of

NUMBER = number_of("hello-a")
RUN = (joined(), requested(), admitted(), placed(), started())


async def test_a_job_is_a_number_that_leads_back_to_it(world, headrace):
    await in_log(world, *RUN)
    await accept(world, "job.cancel")
    asked = ("--format", "%A|%T|%N", "-h", f"-j{NUMBER}")
    assert await headrace("slurm", "squeue", *asked) == (0, f"{NUMBER}|RUNNING|n1\n", "")
    fields = ("-o", "JobID,State,NodeList", "--parsable2", "-j", str(NUMBER))
    said = await headrace("slurm", "sacct", *fields)
    assert said[1] == f"JobID|State|NodeList\n{NUMBER}|RUNNING|n1\n"
    assert await headrace("slurm", "scancel", str(NUMBER)) == (0, "", "")
    assert json.loads(world.asked[0].data)["job"] == "hello-a"
    assert await headrace("slurm", "scancel", "12") == (1, "", "scancel: 12: no such job\n")


async def test_what_is_submitted_is_answered_and_waited_for_by_numbers(world, headrace, tmp_path):
    await in_log(world, project_made("vision"), *RUN)
    await accept(world, "job.submit", job="train-k3f9")
    (tmp_path / "train.sh").write_text("#!/bin/bash\ntrue\n")
    words = ("-A", "vision", f"--dependency=afterok:{NUMBER}", "train.sh")
    said = await headrace("slurm", "sbatch", *words)
    assert said == (0, f"Submitted batch job {number_of('train-k3f9')}\n", "")
    assert json.loads(world.asked[0].data)["after"] == [{"job": "hello-a", "state": "succeeded"}]


async def test_a_folder_of_them_can_be_put_into_a_path(headrace, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    code, out, _ = await headrace("slurm", "path")
    folder = Path(out.strip())
    assert (code, folder.parent.parent) == (0, tmp_path)
    assert {"srun", "sbatch", "squeue", "sacct", "scancel"} <= set(os.listdir(folder))
    assert os.access(folder / "sbatch", os.X_OK)


async def test_a_command_that_is_none_is_named(headrace):
    code, _, err = await headrace("slurm", "salloc")
    assert (code, err.startswith("headrace slurm: salloc is not one of")) == (2, True)


def test_memory_that_nothing_holds_a_job_to_is_said():
    def said(isolation, **gang):
        found = SimpleNamespace(spec={"gang": gang})
        row = SimpleNamespace(workers=[SimpleNamespace(isolation=isolation)])
        return _unenforced(found, row)

    assert said("processes+account", memory_bytes=1) == ", memory: not enforced here"
    assert said("processes", roles=[{"memory_bytes": 1}]) == ", memory: not enforced here"
    assert said("cgroup2+account", memory_bytes=1) == said("processes", gpus=1) == ""

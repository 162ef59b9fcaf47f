"""A job file with an image, through the whole platform to a real engine."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.containers.engines import IMAGE, DockerEngine

from headrace.testing.running import started_platform

pytestmark = [pytest.mark.containers, pytest.mark.timeout(180)]

JOB = f"""
name: boxed
image: {IMAGE}
command: [sh, -c, "echo gpus $CUDA_VISIBLE_DEVICES; test -f /bin/busybox"]
resources: {{gpus: 2, shm: 16MB}}
"""


def test_a_job_file_with_an_image_runs_in_it(engine: DockerEngine, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(JOB)
    options = ("--nodes", "1", "--gpus", "simulated:8xH100-80GB")
    with started_platform(*options, HEADRACE_NODE_ENGINE=engine.address) as platform:
        job = platform.headrace("submit", str(file)).stdout.split()[0]
        row = platform.ended(job)
        logs = platform.headrace("logs", job).stdout
        platform.headrace("verify", "--data-dir", str(platform.data_dir))

    assert (row.state, row.exit_code) == ("succeeded", 0)
    assert logs.startswith("gpus GPU-")
    assert logs.count("GPU-") == 2


def test_without_an_engine_it_waits_and_says_for_what(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(JOB)
    options = ("--nodes", "1", "--gpus", "simulated:8xH100-80GB")
    with started_platform(*options, HEADRACE_NODE_ENGINE="none") as platform:
        job = platform.headrace("submit", str(file)).stdout.split()[0]
        said = platform.headrace("why", job).stdout

    assert "a container engine" in said
    assert "1 no container engine for its image" in said

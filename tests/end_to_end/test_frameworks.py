"""Trainings that need a framework installed: `make test-frameworks`."""

from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"

pytestmark = pytest.mark.frameworks


def test_the_distributed_example_in_pytorch_equals_one_process(new_platform):
    platform = new_platform("--nodes", "2", "--gpus", "simulated:2xH100-80GB")
    platform.headrace("apply", "-f", str(EXAMPLES / "fleet.yaml"))
    done = platform.headrace("submit", "--follow", str(EXAMPLES / "ddp.yaml"))
    assert "one process: loss" in done.stdout
    assert done.stdout.splitlines()[-1].split()[1] == "succeeded"

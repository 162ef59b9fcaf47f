"""A laptop's folder, two nodes that share no file with it or with each other, and a job after that."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from .apart import Machine, why_not
from .conftest import Platform

FEATURES = """
import os, pathlib, model
rank, here = os.environ["HEADRACE_NODE_RANK"], pathlib.Path("features")
here.mkdir()
(here / f"part-{rank}.txt").write_text(f"{model.NAME} {rank}")
print("seen:", [path for path in os.environ["OTHERS"].split(":") if os.path.exists(path)])
"""
READ = "cat in/0/0/features/* in/1/0/features/* in/1/1/features/*"
SHARED = """
type: training
name: {name}
workdir: .
nodes: {nodes}
resources: {{gpus: A100:1}}
"""


@pytest.fixture
def machines(platform: Platform) -> Iterator[tuple[Machine, Machine]]:
    """Two nodes with A100s, which nobody else here has."""
    if lacking := why_not():
        pytest.skip(lacking)
    with contextlib.ExitStack() as stack:
        apart = (Machine(platform, name, "simulated:1xA100-40GB") for name in ("apart1", "apart2"))
        first, second = (stack.enter_context(machine) for machine in apart)
        yield first, second


def submitted(platform: Platform, path: Path, text: str) -> str:
    path.write_text(text)
    return platform.headrace("submit", str(path)).stdout.split()[0]


def test_code_and_outputs_reach_nodes_that_share_no_file(platform, machines, tmp_path) -> None:
    laptop = tmp_path / "laptop"
    laptop.mkdir()
    (laptop / "features.py").write_text(FEATURES)
    others = f"{laptop}:{platform.home}:{platform.data_dir}:{Path(__file__)}"
    earlier = []
    for name in ("digits", "letters"):
        (laptop / "model.py").write_text(f"NAME = {name!r}\n")
        more = f"outputs: [features/]\nenv: {{OTHERS: '{others}'}}\ncommand: python3 features.py\n"
        text = SHARED.format(name=name, nodes=2) + more
        earlier.append(submitted(platform, laptop / "job.yaml", text))
    volumes = ", ".join(f"job/{job}:in/{number}" for number, job in enumerate(earlier))
    after = ", ".join(f"{{job: {job}, state: succeeded}}" for job in earlier)
    text = SHARED.format(name="after", nodes=2).replace("workdir: .\n", "")
    text += f"volumes: [{volumes}]\nafter: [{after}]\ncommand: {READ}\n"
    last = submitted(platform, tmp_path / "after.yaml", text)
    for job in earlier:
        ended = platform.ended(job)
        assert (ended["state"], sorted(ended["where"])) == ("succeeded", ["apart1", "apart2"])
        assert platform.headrace("logs", job).stdout.count("seen: []") == 2

    assert platform.ended(last)["state"] == "succeeded"
    said = platform.headrace("logs", last).stdout
    assert re.findall("digits 0letters 0letters 1", said) == ["digits 0letters 0letters 1"] * 2

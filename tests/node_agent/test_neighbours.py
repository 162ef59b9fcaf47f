"""Whether doctor sees that jobs of two platforms have the same accounts on one machine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.node_agent.doctor.neighbours import (
    Neighbour,
    agents,
    check_neighbours,
    platform_of,
)
from headrace.node_agent.isolation.accounts import COUNT, FIRST

OURS = Neighbour("/a/node", FIRST, "a")
WAITS = "import sys; print(flush=True); sys.stdin.read()"


@pytest.mark.parametrize(
    ("other", "health"),
    [
        (Neighbour("/b/node", FIRST, "b"), "warning"),
        (Neighbour("/b/node", FIRST + COUNT - 1, "b"), "warning"),
        (Neighbour("/b/node", FIRST - COUNT, "b"), "ok"),
        (Neighbour("/a/other-node", FIRST, "a"), "ok"),
        (OURS, "ok"),
    ],
)
def test_accounts_that_two_platforms_give_to_jobs_are_said(other: Neighbour, health: str) -> None:
    check = check_neighbours(OURS, [other])
    assert check.health == health
    assert (other.node_dir in check.found) == (health == "warning")
    assert (f"HEADRACE_NODE_ACCOUNTS={FIRST - COUNT}" in check.fix) == (health == "warning")


def test_a_node_that_has_joined_nothing_yet_has_every_agent_as_its_neighbour() -> None:
    assert check_neighbours(OURS._replace(platform=""), [OURS._replace(node_dir="/b")]).health == (
        "warning"
    )


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Path]:
    """A process that the kernel shows as an agent's, in a folder of its own."""
    folder = tmp_path / "node"
    module = tmp_path / "headrace" / "node_agent.py"
    module.parent.mkdir()
    module.write_text(WAITS)
    folder.mkdir()
    (folder / "grant.pub").write_bytes(b"theirs")
    env = os.environ | {"HEADRACE_NODE_DIR": str(folder), "HEADRACE_NODE_ACCOUNTS": "7000"}
    command = [sys.executable, "-S", "-m", "headrace.node_agent"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=env, cwd=tmp_path, stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n"
        yield folder
        process.kill()


def test_agents_that_run_are_found_with_their_accounts_and_their_platform(agent: Path) -> None:
    assert Neighbour(str(agent), 7000, platform_of([str(agent)])) in set(agents())
    assert platform_of(["", "/nowhere"]) == ""

"""A real gateway and a real agent on one bus, a folder to send, a repository to clone."""

import os
import subprocess
import tempfile
from pathlib import Path

import pytest
from tests.gateway.world import served_world
from tests.node_agent.rig import Node

from headrace.node_agent import agent
from headrace.node_agent.isolation.accounts import Accounts


@pytest.fixture
async def world():
    async with served_world() as served:
        yield served


@pytest.fixture
async def node(world, tmp_path, monkeypatch):
    monkeypatch.setattr(agent, "BEFORE_HELLO_S", 0.1)  # nobody answers for an unknown node
    made = Node(tmp_path, world.broker)
    await made.placement.open()
    await made.start()
    await made.ready()
    yield made
    await made.close()


@pytest.fixture
async def shared(world):
    """A node whose jobs run in accounts, in a folder that everybody can get to."""
    with tempfile.TemporaryDirectory(prefix="headrace-node-") as folder:
        os.chmod(folder, 0o711)
        node = Node(Path(folder), world.broker)
        node.accounts = Accounts(users={"ada": "nobody", "bob": "nobody", "dan": "daemon"})
        await node.placement.open()
        await node.start()
        await node.ready()
        yield node
        await node.close()


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "folder"
    (made / "src").mkdir(parents=True)
    (made / "a.py").write_text("one")
    (made / "src" / "b.py").write_text("two" * 700_000)
    (made / "run.sh").write_text("#!/bin/sh\necho ran $0")
    (made / "run.sh").chmod(0o755)
    return made


@pytest.fixture
def repository(tmp_path):
    """A repository with two commits; its address and their names."""
    made = tmp_path / "repository"
    made.mkdir()
    who = ("-c", "user.name=ada", "-c", "user.email=ada@example.org")

    def git(*words):
        command = ["git", "-C", made, *who, *words]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    git("init", "-q")
    commits = []
    for word in ("one", "two"):
        (made / "a.py").write_text(word)
        git("add", "-A")
        git("commit", "-qm", word)
        commits.append(git("rev-parse", "HEAD"))
    return f"git+{made.as_uri()}", commits

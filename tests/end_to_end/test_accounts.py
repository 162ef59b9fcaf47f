"""As whom jobs run on the nodes that `headrace up` plays: started as root, and as a plain user."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.end_to_end.conftest import Platform
from tests.end_to_end.persons import PERSON, PersonsPlatform, persons_folder

from headrace.client.client import Client
from headrace.node_agent.isolation.accounts import FIRST

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="takes root")
PROJECTS = """
type: project
name: vision
members: [{user: ada, role: researcher}]
---
type: project
name: ads
members: [{user: ada, role: researcher}]
"""
LOOK = """
import glob, os
paths = ["{data}", "{data}/secrets/admin.token", "{data}/keys", "{data}/nodes/n1/attempts"]
seen = []
for path in paths:
    try:
        if os.path.isdir(path):  # what is on the way to this job's own folder is its own
            ways = [os.path.join(path, name) for name in os.listdir(path)]
            seen += [way for way in ways if not os.getcwd().startswith(way)]
        else:
            seen.append(open(path).read())
    except OSError:
        pass
for path in glob.glob("/proc/[0-9]*/environ"):
    try:
        if os.stat(path).st_uid != os.getuid():
            seen.append(open(path).read())
    except OSError:
        pass
print(os.getuid(), os.getgid(), os.getgroups(), len(seen))
"""


@pytest.fixture
def plain() -> Iterator[PersonsPlatform]:
    with persons_folder() as made:
        made.has_namespaces = False
        yield made


def numbers_of(platform: Platform) -> list[tuple[str, str, int]]:
    with contextlib.closing(platform.client()) as client:
        events = [event.data for event in client.events(type_prefix="account.assigned")]
    return [(event["project"], event["user"], event["account"]) for event in events]


def ran(platform: Platform, client: Client, project: str, *command: str) -> str:
    job = client.submit({"name": "who", "project": project, "command": list(command)}).job
    row = platform.ended(job)
    text = "".join(piece.text for piece in client.logs(job))
    assert row["state"] == "succeeded", f"{row}: {text}"
    return text


@as_root
def test_on_nodes_that_root_plays_each_user_of_each_project_is_an_account_without_keys(
    new_platform,
):
    platform = new_platform("--nodes", "2")
    assert platform.report().ready
    platform.headrace("apply", "-f", "-", stdin=PROJECTS)
    token = platform.headrace("token", "create", "--user", "ada", "--expires", "1h").stdout
    ada = Client(platform.url, token.split()[0], "vision")
    admin = platform.client()
    look = (sys.executable, "-c", LOOK.format(data=platform.data_dir))

    said = [
        ran(platform, client, project, *look)
        for client, project in (
            (admin, "default"), (ada, "vision"), (ada, "ads"), (ada, "vision"), (admin, "vision"),
        )
    ]  # fmt: skip

    known = {(project, user): number for project, user, number in numbers_of(platform)}
    pairs = (
        ("default", "admin"),
        ("vision", "ada"),
        ("ads", "ada"),
        ("vision", "ada"),
        ("vision", "admin"),
    )
    uids = [FIRST + known[pair] for pair in pairs]
    assert said == [f"{uid} {uid} [] 0\n" for uid in uids]
    assert len(set(uids)) == 4
    assert "isolation of jobs: accounts; memory and CPU are not limited here" in platform.up()
    record = platform.headrace("describe", admin.jobs(limit=1).jobs[0].job).stdout
    assert "+account" in record
    platform.down()
    platform.up("--no-trust-everybody")
    ada = Client(platform.url, token.split()[0], "ads")
    assert ran(platform, ada, "ads", "id", "-u") == f"{uids[2]}\n"
    platform.verify()


@as_root
def test_what_an_account_wrote_is_its_own_on_every_node_and_in_a_later_attempt(new_platform):
    platform = new_platform("--nodes", "2")
    with tempfile.TemporaryDirectory(prefix="headrace-shared-") as shared:
        os.chmod(shared, 0o1777)
        admin = platform.client()
        script = f"umask 077; echo mine > {shared}/$HEADRACE_RANK; cat {shared}/*"
        for _ in range(2):
            job = admin.submit(
                {
                    "name": "pair",
                    "nodes": 2,
                    "command": ["sh", "-c", script],
                    "resources": {"gpus": 8},
                }
            ).job
            assert platform.ended(job)["state"] == "succeeded"
        assert {path.stat().st_uid for path in Path(shared).iterdir()} == {FIRST + 1}


@as_root
def test_a_plain_user_without_namespaces_runs_only_its_own_jobs_until_it_trusts_everybody(
    plain: PersonsPlatform,
):
    plain.up("--listen", "127.0.0.1:0", "--nodes", "1", "--gpus", "simulated:1xH100-80GB")
    said = plain.up()
    assert "isolation of jobs: none, runs only jobs of admin" in said
    assert "--trust-everybody" in said
    status = plain.headrace("status", "--data-dir", str(plain.data_dir)).stdout
    assert "isolation none, runs only jobs of admin" in status
    plain.headrace("apply", "-f", "-", stdin=PROJECTS)
    token = plain.headrace("token", "create", "--user", "ada", "--expires", "1h").stdout.split()[0]
    ada, admin = Client(plain.url, token, "vision"), plain.client()
    waits = ada.submit({"name": "waits", "project": "vision", "command": ["id", "-u"]}).job

    assert ran(plain, admin, "vision", "id", "-u") == f"{PERSON}\n"

    why = plain.headrace("why", waits).stdout
    assert "n1 cannot isolate jobs" in why
    assert "headrace up --trust-everybody" in why
    plain.down()
    plain.up("--trust-everybody")
    assert plain.ended(waits)["state"] == "succeeded"
    joined = [event.data for event in plain.client().events(type_prefix="node.joined")]
    assert [event.get("trusted") for event in joined] == ["admin", "*"]
    assert "runs everybody's jobs" in plain.headrace("node", "describe", "n1").stdout
    plain.verify()


def test_a_platform_that_others_reach_plays_no_nodes_unless_asked(new_platform):
    platform = new_platform("--listen", "0.0.0.0:0")
    said = platform.up()
    assert "no nodes of its own" in said
    assert "no jobs run on this machine, as other machines reach the platform" in said
    assert platform.client().nodes() == []
    platform.down()
    assert "as asked" in platform.up("--listen", "127.0.0.1:0", "--nodes", "0")

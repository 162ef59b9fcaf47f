"""What a job of one project can do to another's job on the same machine, and to the platform.

Rule: the intruder knows everything that an insider could know, and runs as any researcher's job does.
Every attack of its program is a test of its own, on a platform of root's and on one of a person's.
"""

from __future__ import annotations

import inspect
import os
import secrets
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.security import intruder, victim
from tests.security.conftest import Grounds

from headrace.client import Client
from headrace.node_agent.supervision import tree
from headrace.node_agent.supervision.namespaces import TERMINALS_MAX

pytestmark = pytest.mark.security
WORKSPACE = {"type": "workspace", "preemptibility": "preemptible"}
JOB = {"resources": {"gpus": 1}, "max_duration": "10m"}


class Raid(msgspec.Struct, frozen=True):
    """What the intruder got hold of, by attack, and what held it."""

    evidence: dict[str, str]
    isolation: str
    mark: str


@pytest.fixture(scope="module")
def raid(grounds: Grounds) -> Iterator[Raid]:
    """The intruder's job of `red`, run beside the victim's job of `blue`."""
    secret, mark = secrets.token_hex(16), secrets.token_hex(8)
    bea, rob = grounds.bea, grounds.rob
    serving = submitted(bea, "victim", victim, {"VICTIM_HOLDS": secret})
    grounds.platform.wait(lambda: said(bea, serving), "the victim serves")
    left = decoded(said(bea, serving))
    desk = submitted(bea, "desk", victim, {"VICTIM_HOLDS": secrets.token_hex(16)}, of=WORKSPACE)
    grounds.platform.wait(lambda: said(bea, desk), "the workspace serves")
    at = decoded(said(bea, desk))
    assert is_served(at["app_socket"])
    workspace = {"workspace_socket": at["app_socket"], "workspace_port": at["app_port"]}
    knows = known(grounds, left, secret) | workspace | {"mark": mark}
    raiding = submitted(rob, "intruder", intruder, {"INTRUDER_KNOWS": json_of(knows)})
    row = grounds.platform.ended(raiding)
    assert row["state"] == "succeeded", (row, said(rob, raiding))
    evidence = decoded(said(rob, raiding))
    (attempt,) = rob.job(raiding).attempts
    yield Raid(evidence, isolation_of(attempt), mark)
    bea.cancel(serving)
    bea.cancel(desk)


def submitted(
    client: Client,
    name: str,
    program: Any,
    env: dict[str, str],
    of: dict[str, Any] | None = None,
) -> str:
    command = ["python3", "-c", inspect.getsource(program)]
    what = {"command": command} if of is None else of | {"app": {"command": command}}
    spec = {"name": name, **what, "env": env, "project": client.project, **JOB}
    return client.submit(spec).job


def is_served(path: str) -> bool:
    """Whether somebody answers who may get to this socket."""
    folder, name = os.path.split(path)
    way = os.open(folder, os.O_PATH)
    try:
        return bool(
            intruder.connected(socket.AF_UNIX, socket.SOCK_STREAM, f"/proc/self/fd/{way}/{name}")
        )
    finally:
        os.close(way)


def said(client: Client, job: str) -> str:
    return "".join(piece.text for piece in client.logs(job))


def decoded(text: str) -> dict[str, Any]:
    """The JSON that a program printed last. Raises `AssertionError` with all that it printed."""
    last = text.splitlines()[-1]
    assert last.startswith("{"), text
    found: dict[str, Any] = msgspec.json.decode(last)
    return found


def json_of(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def known(grounds: Grounds, left: dict[str, Any], secret: str) -> dict[str, Any]:
    """What the intruder is told."""
    platform = grounds.platform
    config = Path(platform.env["XDG_CONFIG_HOME"])
    folders = [platform.data_dir, config]
    keys = [
        *platform.layout.secrets.iterdir(),
        *config.rglob("*.toml"),
        *platform.data_dir.rglob("*.key"),
        *platform.data_dir.rglob("*.creds"),
    ]
    return left | {
        "secret": secret,
        "has_accounts": grounds.kind == "root",
        "platform_uid": os.stat(platform.data_dir).st_uid,
        "platform_folders": [str(folder) for folder in folders],
        "platform_sockets": ["/var/run/docker.sock", "/run/dbus/system_bus_socket"],
        "key_files": sorted({str(path) for path in keys if path.is_file()}),
        "victim_folders": [left["folder"]],
        "environments": [path for path in (left["environment"],) if path],
        "pids": [*platform.pids().values(), *of_victim(secret)],
        "groups": groups_of_victim(secret),
        "terminals_max": TERMINALS_MAX,
    }


def of_victim(secret: str) -> list[int]:
    """The victim's processes as the machine numbers them."""
    return [pid for pid in tree.processes() if secret.encode() in of_process(pid, "environ")]


def groups_of_victim(secret: str) -> list[str]:
    """The control groups, of an attempt's name, that the victim's processes are in."""
    ways = {
        line.partition(b":")[2].partition(b":")[2].decode()
        for pid in of_victim(secret)
        for line in of_process(pid, "cgroup").splitlines()
    }
    tops = ["/sys/fs/cgroup", *map(str, Path("/sys/fs/cgroup").iterdir())]
    found = [top + way for way in ways if "/headrace-" in way for top in tops]
    return sorted(path for path in found if os.path.isdir(path))


def of_process(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def isolation_of(attempt: Any) -> str:
    (worker,) = msgspec.to_builtins(attempt)["workers"]
    return str(worker["isolation"])


@pytest.mark.parametrize("name", intruder.ATTACKS)
def test_an_intruder_cannot(
    name: str, grounds: Grounds, raid: Raid, record_property: Callable[[str, object], None]
) -> None:
    record_property("isolation", f"{grounds.kind}: {raid.isolation}")
    if "loopback" in name and "+loopback" not in raid.isolation:
        pytest.skip(f"loopback is shared, as the record says: {raid.isolation}")
    assert raid.evidence[name] == ""


def test_nothing_of_the_intruder_outlives_its_job(
    raid: Raid,
) -> None:
    mark = f"outlives-{raid.mark}".encode()
    left = [pid for pid in tree.processes() if mark in of_process(pid, "cmdline")]
    assert left == []

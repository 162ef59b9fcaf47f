"""Machines that join a platform: over TLS, from a network that lets nothing in."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import nats
import pytest
from nats.errors import Error as NatsError

from headrace import trust
from headrace.embedded import processes

from .conftest import Platform, running_platform
from .elsewhere import Elsewhere, Machine

pytestmark = pytest.mark.agent_faults


@pytest.fixture
def elsewhere() -> Iterator[Elsewhere]:
    if os.geteuid() != 0 or shutil.which("ip") is None or shutil.which("nft") is None:
        pytest.skip("network namespaces need root, ip and nft (make system-deps)")
    made = Elsewhere()
    try:
        made.open()
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def over_tls() -> Iterator[Platform]:
    """Reached from everywhere, over TLS, with a certificate of its own."""
    listen = f"0.0.0.0:{free_port()}"
    with running_platform("--nodes", "1", "--listen", listen, "--tls-self-signed") as started:
        yield started


def free_port() -> int:
    with socket.create_server(("", 0)) as server:
        return int(server.getsockname()[1])


@contextlib.contextmanager
def machine(platform: Platform, elsewhere: Elsewhere, name: str) -> Iterator[Machine]:
    made = Machine(platform, elsewhere, name)
    try:
        yield made
    finally:
        made.stop()


def token_of(platform: Platform, *options: str) -> str:
    line = platform.headrace("node", "token", *options).stdout.splitlines()[0]
    return line.rpartition(" ")[2]


def state(platform: Platform, node: str) -> str:
    rows = {row["node"]: row for row in platform.json("node", "list")}
    return str(rows.get(node, {}).get("state", ""))


def events(platform: Platform, kind: str) -> list[str]:
    """The log's events of this type, a line each."""
    return platform.headrace("events", "--type", kind, "-o", "wide").stdout.splitlines()


def listening(elsewhere: Elsewhere) -> set[str]:
    """Addresses in the namespace on which something listens."""
    done = subprocess.run(
        elsewhere.command("cat", "/proc/net/tcp", "/proc/net/tcp6"),
        check=True,
        capture_output=True,
        text=True,
    )
    rows = (line.split() for line in done.stdout.splitlines())
    found = (row[1].partition(":")[0] for row in rows if len(row) > 3 and row[3] == "0A")
    return {socket.inet_ntoa(bytes.fromhex(address)[::-1]) for address in found}


def test_a_machine_behind_a_nat_joins_over_tls_is_approved_and_runs_a_job(
    elsewhere: Elsewhere, over_tls: Platform
) -> None:
    token = token_of(over_tls)
    with machine(over_tls, elsewhere, "n9") as box:
        box.join(token)
        over_tls.wait(lambda: state(over_tls, "n9") == "waiting", "it waits for approval")
        over_tls.headrace("node", "approve", "n9")
        over_tls.wait(lambda: state(over_tls, "n9") == "ready", "it is a node")
        assert listening(elsewhere) <= {"127.0.0.1", elsewhere.own}, "peers may ask, if they can"

        job = over_tls.headrace("run", "-d", "--gpus", "A100:1", "--", "echo", "from afar")
        ended = over_tls.ended(job.stdout.split()[0])
        assert (ended["state"], ended["where"]) == ("succeeded", ["n9"])
        assert "from afar" in over_tls.headrace("logs", ended["job"]).stdout

        secret = token.partition(".")[0].split("_", 2)[2]
        below = (path for path in over_tls.home.rglob("*") if path.is_file())
        seen = [path for path in below if secret.encode() in path.read_bytes()]
        assert seen == [], "the token is nowhere, once proven"
        assert secret not in over_tls.headrace("events", "-o", "json").stdout
        elsewhere.cut(off=True)
        over_tls.wait(lambda: state(over_tls, "n9") == "silent", "the cable is pulled")
        elsewhere.cut(off=False)
        over_tls.wait(lambda: state(over_tls, "n9") == "ready", "it is heard again")


def test_a_drained_node_gives_its_job_to_another_and_is_deleted(
    elsewhere: Elsewhere, over_tls: Platform
) -> None:
    with machine(over_tls, elsewhere, "n7") as box:
        box.join(token_of(over_tls, "--auto-approve"))
        over_tls.wait(lambda: state(over_tls, "n7") == "ready", "it is a node")
        for other in ("n9", "n1"):  # n9's agent has ended, which may not be known yet
            over_tls.headrace("node", "cordon", other, check=other == "n1")
        script = 'trap "cat $HEADRACE_STOP_REASON_FILE; exit 143" TERM; sleep 60 & wait'
        job = over_tls.headrace("run", "-d", "--", "sh", "-c", script).stdout.split()[0]
        over_tls.wait(lambda: over_tls.described(job)["job"]["state"] == "running", "runs")
        said = over_tls.headrace("node", "delete", "n7", check=False).stderr
        assert f"1 job runs there: {job}" in said
        over_tls.headrace("node", "uncordon", "n1")
        drained = over_tls.headrace("node", "drain", "n7", "--yes").stdout
        assert drained.splitlines()[-1].startswith("n7 is empty"), drained
        over_tls.wait(lambda: over_tls.described(job)["job"]["where"] == ["n1"], "moved")
        assert "node-drain" in over_tls.headrace("logs", job, "--attempt", "1").stdout
        over_tls.headrace("node", "delete", "n7")
        over_tls.headrace("cancel", job)
        over_tls.ended(job)


def test_a_node_is_started_again_with_all_that_it_was_joined_with(
    elsewhere: Elsewhere, over_tls: Platform
) -> None:
    with machine(over_tls, elsewhere, "n6") as box:
        box.join(token_of(over_tls, "--auto-approve"), "--label", "rack=r3", "--label", "site=b")
        over_tls.wait(lambda: state(over_tls, "n6") == "ready", "it is a node")
        assert f"to start it again: headrace node run --dir {box.folder}" in box.said
        assert "its agent runs here until Ctrl-C; jobs run on without it" in box.said
        box.stop()
        box.run("-m", "headrace.cli", "node", "run", "--dir", str(box.folder))
        over_tls.wait(lambda: len(met(over_tls, "n6")) > 1, "its agent runs again")
        after = over_tls.json("node", "describe", "n6")
        assert (after["gpus"], after["labels"]) == (2, {"rack": "r3", "site": "b"})
        over_tls.headrace("node", "delete", "n6")
        assert box.status() == 78
        box.run("-m", "headrace.cli", "node", "run", "--dir", str(box.folder))
        assert box.status() == 1
        assert "has not joined a platform: headrace node join URL" in box.said


def met(platform: Platform, node: str) -> list[str]:
    """Each time that placement met an agent of this node."""
    return [line for line in events(platform, "node.joined.v1") if node in line]


def test_a_token_is_good_once_and_who_comes_second_is_told(
    elsewhere: Elsewhere, over_tls: Platform
) -> None:
    token = token_of(over_tls, "--auto-approve")
    with (
        machine(over_tls, elsewhere, "once") as first,
        machine(over_tls, elsewhere, "late") as second,
    ):
        first.join(token)
        over_tls.wait(lambda: state(over_tls, "once") == "ready", "it is a node")
        second.join(token)
        assert second.status() == 120
        assert "was used already, last by node once" in second.said
        assert not [path for path in second.folder.iterdir() if "key" in path.name]
        assert len(events(over_tls, "access.join_refused")) == 1
    listed = {row["token"]: row for row in over_tls.json("node", "tokens")}
    assert (listed[token[4:12]]["state"], listed[token[4:12]]["nodes"]) == ("used", ["once"])


def test_of_two_agents_with_one_identity_the_second_is_turned_away(
    elsewhere: Elsewhere, over_tls: Platform
) -> None:
    with (
        machine(over_tls, elsewhere, "twin") as first,
        machine(over_tls, elsewhere, "copy") as second,
    ):
        first.join(token_of(over_tls, "--auto-approve"))
        over_tls.wait(lambda: state(over_tls, "twin") == "ready", "it is a node")
        for other in ("n9", "once"):  # their agents have ended, which may not be known yet
            over_tls.headrace("node", "cordon", other, check=False)
        over_tls.headrace("run", "--gpus", "A100:1", "--", "true")  # so that twin was heard
        second.folder.mkdir(mode=0o700)
        for name in ("member.json", "node.nkey", "node.creds", "node.key", "grant.pub", "head.pem"):
            shutil.copy(first.folder / name, second.folder / name)
        second.run("-m", "headrace.node_agent")
        assert second.status() == 78
        assert "another agent is node twin" in second.said.splitlines()[-1]
        assert len(events(over_tls, "node.contested")) == 1
        assert state(over_tls, "twin") == "ready"


def test_a_platform_with_another_certificate_gets_no_token(
    elsewhere: Elsewhere, over_tls: Platform
) -> None:
    token = token_of(over_tls)
    other = token.partition(".")[0] + "." + "A" * 43
    with machine(over_tls, elsewhere, "wary") as box:
        box.join(other)
        assert box.status() == 120
        assert "has another certificate than the one pinned" in box.said


def test_a_deleted_nodes_login_is_refused_and_the_name_can_be_joined_anew(
    elsewhere: Elsewhere, over_tls: Platform
) -> None:
    with machine(over_tls, elsewhere, "again") as box:
        box.join(token_of(over_tls, "--auto-approve"))
        over_tls.wait(lambda: state(over_tls, "again") == "ready", "it is a node")
        old = over_tls.home / "old.creds"
        shutil.copy(box.folder / "node.creds", old)
        over_tls.headrace("node", "delete", "again")
        assert box.status() == 78
        over_tls.wait(lambda: not signs_in(over_tls, old), "its login is refused")
        box.join(token_of(over_tls, "--auto-approve"))
        over_tls.wait(lambda: state(over_tls, "again") == "ready", "it is a node again")
        assert signs_in(over_tls, box.folder / "node.creds")
        assert not signs_in(over_tls, old)


def signs_in(platform: Platform, creds: Path) -> bool:
    """Whether the bus takes this login."""
    pem = (platform.layout.secrets / "tls.pem").read_text()

    async def sign_in() -> None:
        client = await nats.connect(
            platform.nats_url,
            user_credentials=str(creds),
            tls=trust.context_of(pem),
            allow_reconnect=False,
        )
        await client.close()

    try:
        asyncio.run(sign_in())
    except NatsError:
        return False
    return True


def test_a_deleted_node_ends_with_one_line(elsewhere: Elsewhere, over_tls: Platform) -> None:
    with machine(over_tls, elsewhere, "gone") as box:
        box.join(token_of(over_tls, "--auto-approve"))
        over_tls.wait(lambda: state(over_tls, "gone") == "ready", "it is a node")
        over_tls.headrace("node", "delete", "gone")
        assert box.status() == 78
        assert box.said.splitlines()[-1].endswith("was deleted"), box.said
        assert state(over_tls, "gone") == ""
        assert processes.wait_until(lambda: not (box.folder / "node.creds").exists(), 5.0)

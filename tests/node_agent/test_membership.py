"""The files of a node's identity, and what joining may do with a token."""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path

import pytest

from headrace.bus import credentials
from headrace.node_agent.isolation.accounts import COUNT
from headrace.node_agent.joining import NotAdmitted, is_due, join
from headrace.node_agent.joining_aloud import FAILED, join_aloud
from headrace.node_agent.membership import Member, NodeFolder, bus_url
from headrace.trust import join_token, order
from headrace.trust.order import Order

LASTS_S = 3600


@pytest.fixture
def folder(tmp_path: Path) -> NodeFolder:
    return NodeFolder(tmp_path)


def signed_in(folder: NodeFolder, *, at_s: int, lasts_s: int) -> None:
    """With a credential that was given then, for so long."""
    seed = credentials.new_account_seed()
    key = credentials.public_key(folder.seed())
    permissions = credentials.node_permissions("n3")
    jwt = credentials.user_jwt(seed, key, "n3", permissions, expires_at_s=at_s + lasts_s)
    folder.sign_in(jwt, "Z3JhbnQ=")
    os.utime(folder.creds, (at_s, at_s))


def test_the_seed_is_made_once_and_every_file_is_its_owners_alone(folder: NodeFolder) -> None:
    seed = folder.seed()
    assert folder.seed() == seed
    order.give(folder.path, Order(node="n3", url="https://head", token="t"))
    assert folder.ordered().node == "n3"
    folder.joined(Member(node="n3", url="https://head", address="a"))
    assert not (folder.path / order.FILE).exists(), "the token is not kept"
    signed_in(folder, at_s=0, lasts_s=LASTS_S)
    for file in folder.path.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file


def test_a_credential_is_renewed_when_half_of_its_time_is_over(folder: NodeFolder) -> None:
    import time

    now_s = int(time.time())
    assert is_due(folder), "there is none"
    signed_in(folder, at_s=now_s, lasts_s=LASTS_S)
    assert not is_due(folder)
    signed_in(folder, at_s=now_s - LASTS_S * 2 // 3, lasts_s=LASTS_S)
    assert is_due(folder)


def test_who_leaves_keeps_nothing_of_what_it_was(folder: NodeFolder) -> None:
    before = folder.seed()
    folder.joined(Member(node="n3", url="https://head", address="a"))
    folder.leave()
    assert folder.member() is None
    assert folder.seed() != before


@pytest.mark.parametrize(
    ("url", "bus", "where"),
    [
        ("https://head:7400", "tls://:4222", "tls://head:4222"),
        ("https://[fd00::1]:7400", "tls://:4222", "tls://[fd00::1]:4222"),
        ("https://head:7400", "nats://bus:4222", "nats://bus:4222"),
    ],
)
def test_the_bus_is_where_the_gateway_is_unless_it_is_elsewhere(
    url: str, bus: str, where: str
) -> None:
    assert bus_url(Member(node="n3", url=url, address="a", bus=bus)) == where


def test_a_platform_that_moved_is_asked_where_its_bus_is(folder: NodeFolder) -> None:
    folder.joined(Member(node="n3", url="http://old", address="a", bus="nats://:1"))
    folder.moved("http://new", "")
    assert folder.member() == Member(node="n3", url="http://new", address="a")


def test_a_token_never_goes_to_another_machine_in_clear(folder: NodeFolder) -> None:
    wanted = Order(node="n3", url="http://192.0.2.1:7400", token=join_token.new().text())
    with pytest.raises(NotAdmitted, match="a token goes over https only"):
        join(folder, wanted)


def test_what_is_no_order_ends_in_one_line(folder: NodeFolder) -> None:
    with pytest.raises(ValueError, match="has not joined a platform: headrace node join"):
        folder.ordered()
    (folder.path / order.FILE).write_text("{")
    with pytest.raises(ValueError, match=r"cannot read .*join\.json"):
        folder.ordered()


@pytest.mark.skipif(os.geteuid() != 0, reason="who is not root runs jobs as itself")
def test_a_machine_on_which_no_job_could_run_does_not_join(
    folder: NodeFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    order.give(folder.path, Order(node="n3", url="https://127.0.0.1:9", token="t"))
    monkeypatch.setenv("HEADRACE_NODE_DIR", str(folder.path))
    nobody = pwd.getpwnam("nobody").pw_uid
    monkeypatch.setenv("HEADRACE_NODE_ACCOUNTS", str(nobody))

    assert join_aloud(folder.path) == FAILED

    assert capsys.readouterr().err == (
        f"headrace node join: nobody ({nobody}, in /etc/passwd) lies among the accounts for jobs,"
        f" {nobody} to {nobody + COUNT - 1}; set HEADRACE_NODE_ACCOUNTS to the first of as many free"
        " numbers, on every node the same\n"
    )
    assert not (folder.path / order.FILE).exists()

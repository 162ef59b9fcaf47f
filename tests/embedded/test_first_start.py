"""What a first start makes: folders, secrets, settings, the context of the command line."""

import os
import socket
import stat
import tomllib
from urllib.parse import urlsplit

import nats
import pytest

from headrace.bus import credentials
from headrace.bus.service_logins import service_permissions
from headrace.embedded import EmbeddedError, contexts, secrets, settings
from headrace.embedded.binaries import nats_server, postgres_bin_dir, reachable_by
from headrace.embedded.layout import Layout
from headrace.embedded.nats import Nats
from headrace.embedded.services import SERVICES, role_dsn


@pytest.fixture
def layout(tmp_path, monkeypatch):
    for name in ("HEADRACE_PG_DSN", "HEADRACE_NATS_URL"):
        monkeypatch.delenv(name, raising=False)
    found = Layout(tmp_path / "data")
    found.create()
    return found


def settle(layout, nodes=None, gpus=None, listen=None):
    return settings.settle(layout, settings.Wanted(nodes=nodes, gpus=gpus, listen=listen))


def files_below(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


def test_everything_in_the_data_dir_is_ours_alone(layout):
    secrets.ensure(layout, SERVICES, ["n1"])
    settle(layout)
    for owner in ("placement", "gateway", "node"):
        secrets.hand_out(layout, owner, owner)
    # passed through by Postgres' account, on the way to its own folder; nothing is listed
    passed = 0o700 if os.geteuid() else 0o711
    assert stat.S_IMODE(layout.data_dir.stat().st_mode) == passed
    for folder in (p for p in layout.data_dir.rglob("*") if p.is_dir()):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700, folder
    for file in files_below(layout.data_dir):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file


def test_secrets_are_made_once(layout):
    secrets.ensure(layout, SERVICES, ["n1"])
    before = {path: path.read_bytes() for path in files_below(layout.secrets)}
    assert len(set(before.values())) == len(before), "no two are the same"
    secrets.ensure(layout, SERVICES, ["n1"])
    assert {path: path.read_bytes() for path in files_below(layout.secrets)} == before


def test_who_may_do_something_else_than_before_gets_a_new_login(layout):
    secrets.ensure(layout, SERVICES, ["n1"])
    before = {name: secrets.creds_file(layout, name).read_bytes() for name in (*SERVICES, "n1")}
    account = (layout.secrets / "account.seed").read_text()
    earlier = credentials.new_creds(account, "metrics", credentials.node_permissions("n2"))
    secrets.creds_file(layout, "metrics").write_text(earlier)
    secrets.ensure(layout, SERVICES, ["n1"])
    after = {name: secrets.creds_file(layout, name).read_bytes() for name in (*SERVICES, "n1")}
    allowed = service_permissions("metrics")
    assert credentials.allows(after.pop("metrics").decode(), allowed)
    assert not credentials.allows(earlier, allowed)
    assert after == {name: creds for name, creds in before.items() if name != "metrics"}


def test_a_start_that_was_cut_short_is_completed_by_the_next(layout):
    secrets.ensure(layout, SERVICES, ["n1"])
    before = (layout.secrets / "vault.pub").read_bytes()
    (layout.secrets / "vault.pub").unlink()
    secrets.ensure(layout, SERVICES, ["n1"])
    assert (layout.secrets / "vault.pub").read_bytes() == before


def test_a_process_gets_the_keys_it_needs_and_no_others(layout):
    secrets.ensure(layout, SERVICES, ["n1"])
    got = {
        owner: {path.name for path in secrets.hand_out(layout, owner, owner).iterdir()}
        for owner in secrets.KEY_FILES
    }
    assert got["node"] == {"grant.pub"}
    assert got["gateway"] == {"vault.pub", "grant.pub", "metrics.token"}
    assert got["placement"] == {"master.key", "vault.key", "grant.key", "metrics.token"}
    assert got["admission"] == {
        "master.key", "account.seed", "operator.seed", "bus.revoker.creds", "metrics.token",
    }  # fmt: skip
    assert got["quota"] == got["metrics"] == {"metrics.token"}


def test_a_node_that_joins_gets_a_login_and_the_others_keep_theirs(layout):
    secrets.ensure(layout, SERVICES, ["n1"])
    before = secrets.creds_file(layout, "n1").read_bytes()
    conf = secrets.bus_authentication(layout)
    secrets.ensure(layout, SERVICES, ["n1", "n2"])
    assert secrets.creds_file(layout, "n2").exists()
    assert secrets.creds_file(layout, "n1").read_bytes() == before
    assert secrets.bus_authentication(layout) == conf


async def test_the_bus_knows_its_users_and_nobody_else(layout, tmp_path):
    secrets.ensure(layout, SERVICES, ["n1"])
    server = Nats(layout.nats, authentication=secrets.bus_authentication(layout))
    server.start()
    try:
        for name in ("placement", "n1"):
            creds = str(secrets.creds_file(layout, name))
            client = await nats.connect(server.url, user_credentials=creds)
            await client.close()
        with socket.create_connection(urlsplit(server.url)[1].split(":")) as stranger:
            stranger.sendall(b"CONNECT {}\r\nPING\r\n")
            with stranger.makefile("rb") as answers:
                assert answers.readline().startswith(b"INFO ")
                assert answers.readline() == b"-ERR 'Authorization Violation'\r\n"
    finally:
        server.stop()


def test_options_are_remembered(layout):
    assert settle(layout, nodes=3, gpus="simulated:4xA100-40GB").nodes == 3
    again = settle(layout, listen="127.0.0.1:7999")
    assert (again.nodes, again.gpus) == (3, "simulated:4xA100-40GB")
    assert settle(layout).listen == "127.0.0.1:7999"
    assert again.fleet() == "3 nodes · 12 × A100-40GB (simulated)"
    assert again.node_ports("n2") == "20500-20999"


@pytest.mark.parametrize(
    "wrong",
    [
        {"nodes": -1},
        {"nodes": 65},
        {"gpus": "8"},
        {"gpus": "simulated:0xH100-80GB"},
        {"gpus": "simulated:8xH100 80GB"},
        {"gpus": "simulated:8x../etc"},
        {"listen": "127.0.0.1:banana"},
        {"listen": "127.0.0.1:70000"},
    ],
)
def test_a_wrong_option_is_refused_by_name_and_forgotten(layout, wrong):
    with pytest.raises(EmbeddedError, match=f"^refused: --{next(iter(wrong))} = "):
        settle(layout, **wrong)
    assert settle(layout).nodes in (1, 2)


def test_a_log_kept_elsewhere_is_never_replaced_by_an_empty_one(layout, monkeypatch):
    monkeypatch.setenv("HEADRACE_PG_DSN", "postgresql://me@db/headrace")
    assert settle(layout).external_postgres
    monkeypatch.delenv("HEADRACE_PG_DSN")
    with pytest.raises(EmbeddedError, match="your own Postgres; set HEADRACE_PG_DSN"):
        settle(layout)


@pytest.mark.parametrize(
    "owner",
    [
        "postgresql://boss:pw@db.example:5433/headrace?sslmode=require",
        "postgresql://boss:pw@/headrace?host=/run/x&port=5432",
    ],
)
def test_a_role_connects_where_its_owner_does(owner):
    dsn = role_dsn(owner, "quota", "p/w")
    assert dsn == owner.replace("boss:pw@", "headrace_quota:p%2Fw@")


def test_the_context_is_written_beside_the_others(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    folder = tmp_path / "data"
    assert contexts.write_local("http://127.0.0.1:1", "t1", "", folder) == ("local", "local")
    path = contexts.config_file()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_text(
        'current = "work"\n# mine\n[contexts.local]\nurl = "old"\ntoken = "old"\n\n'
        '[contexts.work]\nurl = "https://head"  # the big one\n'
    )
    said = contexts.write_local("http://127.0.0.1:2", "t2", "c.pem", folder)
    assert said == ("local", "work")
    text = path.read_text()
    assert "# mine\n" in text
    assert "# the big one\n" in text
    assert tomllib.loads(text) == {
        "current": "work",
        "contexts": {
            "work": {"url": "https://head"},
            "local": {
                "url": "http://127.0.0.1:2",
                "token": "t2",
                "project": "default",
                "certificate": "c.pem",
                "data_dir": str(folder),
            },
        },
    }
    contexts.write_local("http://127.0.0.1:2", "t2", "c.pem", folder)
    assert path.read_text() == text, "writing the same again changes nothing"


def test_another_platform_of_this_machine_takes_no_context_from_the_first(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    first, fork, third = folders = [tmp_path / name for name in ("first", "fork", "third")]
    for folder in folders:
        folder.mkdir()
    for folder, name in (
        (first, "local"),
        (fork, "local-2"),
        (third, "local-3"),
        (fork, "local-2"),
    ):
        said = contexts.write_local(f"http://{folder.name}", folder.name, "", folder)
        assert said == (name, "local")
    kept = tomllib.loads(contexts.config_file().read_text())["contexts"]
    assert {name: context["token"] for name, context in kept.items()} == {
        "local": "first", "local-2": "fork", "local-3": "third",
    }  # fmt: skip
    fork.rmdir()
    late = tmp_path / "late"
    assert contexts.write_local("http://late", "late", "", late) == ("local-2", "local")


def test_a_configuration_that_is_not_toml_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "headrace").mkdir()
    config = tmp_path / "headrace" / "config.toml"
    config.write_text("url = = banana\n")
    with pytest.raises(EmbeddedError, match="left as it is"):
        contexts.write_local("http://127.0.0.1:1", "t", "", tmp_path / "data")
    assert config.read_text() == "url = = banana\n"


def test_a_data_dir_of_somebody_else_is_refused(layout):
    if os.geteuid() != 0:
        pytest.skip("only root can make a folder of somebody else")
    os.chown(layout.secrets, 65534, 65534)
    with pytest.raises(EmbeddedError, match="belongs to uid 65534"):
        layout.create()


def test_only_one_works_on_a_data_dir(layout):
    with layout.locked(), pytest.raises(EmbeddedError, match="another headrace"), layout.locked():
        raise AssertionError


@pytest.mark.parametrize(
    ("variable", "find"),
    [("HEADRACE_NATS_BIN", nats_server), ("HEADRACE_PG_BIN", postgres_bin_dir)],
)
def test_a_named_program_that_is_missing_is_said(variable, find, monkeypatch):
    monkeypatch.setenv(variable, "/nowhere/bin")
    with pytest.raises(EmbeddedError, match=f"/nowhere/bin: .*{variable}"):
        find()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs it as another user")
def test_programs_that_its_user_cannot_reach_are_copied_once(tmp_path, server_folder, monkeypatch):
    from headrace.embedded import binaries
    from headrace.embedded.accounts import plain_account

    install = tmp_path / "carrier" / "pginstall"
    (install / "bin").mkdir(parents=True)
    program = install / "bin" / "postgres"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (tmp_path / "carrier.libs").mkdir()
    (tmp_path / "carrier.libs" / "libpq.so").write_text("")
    tmp_path.chmod(0o700)
    monkeypatch.setattr(binaries, "PROGRAMS_DIR", server_folder / "shared" / "programs")
    account = plain_account()
    copied = reachable_by(install / "bin", account)
    assert copied.is_relative_to(server_folder)
    assert (copied.parent.parent.parent / "carrier.libs" / "libpq.so").exists()
    assert reachable_by(install / "bin", account) == copied
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700

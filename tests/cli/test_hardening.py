"""What `headrace doctor --security` finds wrong with a platform, and what it says mends it."""

import datetime as dt
import json

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.cli.program import in_log
from tests.gateway.people import person, tree

from headrace.cli import hardening, hardening_files
from headrace.cli.arguments import Parser
from headrace.cli.verifying import verify_options
from headrace.embedded import secrets, settings
from headrace.embedded.layout import Layout
from headrace.embedded.settings import Settings, Wanted
from headrace.events.access import PublisherCreated
from headrace.events.accounts import EVERYBODY, UNISOLATED
from headrace.events.members import TokenCreated
from headrace.events.nodes import DeviceContested, NodeJoined, NodeReportRefused

DAY_US = 86_400_000_000
NOW_US = 100 * DAY_US
SHARED = "0.0.0.0:7400"


def healths(checks):
    assert all(bool(check.fix) == (check.health != "ok") for check in checks), checks
    return {check.name: check.health for check in checks}


async def looked(world, now_us=NOW_US, token="a-token-for-tests"):
    client = world.client(token)
    return await world.call(lambda: list(hardening.of_platform(client, now_us)))


def joined(node, isolation="accounts", trusted=""):
    return NodeJoined(
        node=node, host="box", address="a", boot="b", incarnation="i", public_key="k",
        isolation=isolation, trusted=trusted,
    )  # fmt: skip


def publisher(name, expires_at_us):
    return PublisherCreated(
        project="vision", name=name, public_key=f"U{name}", expires_at_us=expires_at_us
    )


def join_token(name, *, auto_approve):
    return TokenCreated(
        token=name, digest="d" * 64, uses=1, expires_at_us=10**16, auto_approve=auto_approve
    )


async def test_a_platform_without_weak_spots_is_well(world):
    await in_log(world, *tree(), publisher("etl", NOW_US + 8 * DAY_US), joined("n1"))
    found = healths(await looked(world))
    assert set(found) == {
        "config", "door", "tokens", "joining", "services", "logins", "nodes", "reports",
    }  # fmt: skip
    assert set(found.values()) == {"ok"}


@pytest.mark.parametrize(
    ("events", "name", "health", "said"),
    [
        (person("ada", ("viewer", "vision")), "tokens", "warning", "ada/id-ada"),
        ([join_token("0123abcd", auto_approve=True)], "joining", "warning", "0123abcd"),
        ([join_token("0123abcd", auto_approve=False)], "joining", "ok", "approved"),
        (person("service:airflow", acts_for=True), "services", "warning", "anybody in the fleet"),
        (person("service:vision/etl", acts_for=True), "services", "warning", "their own scope"),
        ([publisher("etl", NOW_US + 6 * DAY_US)], "logins", "warning", "vision/etl end within"),
        ([publisher("etl", 0)], "logins", "warning", "vision/etl never end"),
        ([joined("n1", UNISOLATED, EVERYBODY)], "nodes", "failed", "n1"),
        ([joined("n1", UNISOLATED, "admin")], "nodes", "warning", "one user's"),
        ([joined("n1", "user-namespaces")], "nodes", "ok", "all 1"),
    ],
)
async def test_each_weak_spot_of_a_platform_has_a_line(world, *, events, name, health, said):
    await in_log(world, *tree(), *events)
    check = next(check for check in await looked(world) if check.name == name)
    assert (check.health, said in check.found) == (health, True), check
    assert bool(check.fix) == (health != "ok")


@pytest.mark.parametrize(
    "event",
    [
        DeviceContested(node="n1", host="box", device="GPU-1", holder="n2"),
        NodeReportRefused(
            node="n1", what="exited", job="j", attempt=1, rank=0, device="", reason="r", count=9
        ),
    ],
)
async def test_nodes_that_the_log_contradicted_are_named_for_a_day(world, event):
    await in_log(world, *tree(), event)

    async def health(now_us):
        return healths(await looked(world, now_us))["reports"]

    assert await health(world.now_us() + DAY_US // 2) == "warning"
    assert await health(world.now_us() + 2 * DAY_US) == "ok"


async def test_who_may_not_see_a_platform_is_told_so_in_one_line_each(world):
    checks = await looked(world, token="nobodys")
    assert {check.health for check in checks if check.name == "platform"} == {"warning"}


def test_tokens_that_others_can_read_are_a_failure(tmp_path):
    config = tmp_path / "config.toml"
    assert hardening.check_config(config).health == "ok"
    config.touch()
    config.chmod(0o644)
    assert hardening.check_config(config).health == "failed"
    config.chmod(0o600)
    assert hardening.check_config(config).health == "ok"


@pytest.mark.parametrize(
    ("url", "health"),
    [
        ("https://head:7400", "ok"),
        ("http://127.0.0.1:7400", "ok"),
        ("http://head:7400", "failed"),
    ],
)
def test_tokens_that_cross_a_network_in_clear_are_a_failure(url, health):
    assert hardening.check_door(url).health == health


@pytest.fixture
def layout(tmp_path, monkeypatch):
    """The folder of a platform that was set up and does not run."""
    for name in ("HEADRACE_PG_DSN", "HEADRACE_NATS_URL", "HEADRACE_NOTED"):
        monkeypatch.delenv(name, raising=False)
    kept = Layout(tmp_path / "data")
    kept.create()
    settings.settle(kept, Wanted())
    secrets.ensure(kept, ())
    return kept


def test_a_platform_for_oneself_is_well_but_for_a_log_that_nobody_noted(layout):
    found = healths(list(hardening_files.of_data_folder(layout)))
    assert {name for name, health in found.items() if health != "ok"} == {"noted"}


@pytest.mark.parametrize("file", ["secrets/admin.token", "secrets/metrics.token", "secrets", "."])
def test_a_key_that_others_can_read_is_a_failure(layout, file):
    (layout.data_dir / file).chmod(0o755 if file in ("secrets", ".") else 0o640)
    check = hardening_files.check_modes(layout)
    assert (check.health, str(layout.data_dir / file) in check.found) == ("failed", True)


def test_a_folder_that_others_only_pass_through_is_well(layout):
    layout.data_dir.chmod(0o711)
    layout.nodes.chmod(0o711)
    assert hardening_files.check_modes(layout).health == "ok"


@pytest.mark.parametrize(
    ("options", "weak"),
    [
        ({"listen": SHARED}, {"listening": "failed", "caps": "warning"}),
        ({"listen": SHARED, "tls_self_signed": True}, {"caps": "warning"}),
        ({"listen": SHARED, "tls_self_signed": True, "nodes": 2},
         {"caps": "warning", "played": "warning"}),
        ({"trust_everybody": True}, {"trust": "failed"}),
    ],
)  # fmt: skip
def test_each_weak_setting_has_a_line(layout, options, weak):
    settings.settle(layout, Wanted(**options))
    found = healths(list(hardening_files.of_data_folder(layout)))
    del found["noted"]
    assert {name: health for name, health in found.items() if health != "ok"} == weak


def test_caps_that_somebody_chose_are_well():
    wanted = Settings(nodes=0, gpus="auto", listen=SHARED)
    assert hardening_files.check_caps(wanted, {}).health == "warning"
    chosen = {hardening_files.CAPS[0]: "500"}
    assert hardening_files.check_caps(wanted, chosen).health == "ok"


def certificate(path, days):
    key = ec.generate_private_key(ec.SECP256R1())
    now, name = dt.datetime.now(dt.UTC), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "h")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=100))
        .not_valid_after(now + dt.timedelta(days=days))
        .sign(key, hashes.SHA256())
    )
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    return str(path)


@pytest.mark.parametrize(("days", "health"), [(90, "ok"), (10, "warning"), (-1, "failed")])
def test_a_certificate_that_ends_is_said_in_time(layout, tmp_path, days, health):
    file = certificate(tmp_path / "cert.pem", days)
    wanted = Settings(nodes=0, gpus="auto", tls=True, tls_certificate=file)
    (check,) = hardening_files.check_certificate(layout, wanted)
    assert check.health == health


@pytest.mark.parametrize(
    ("dsn", "health"),
    [
        ("", "ok"),
        ("postgresql://u@/db?host=/var/run/postgresql", "ok"),
        ("postgresql://u:p@localhost/db", "ok"),
        ("postgresql://u:p@db.example.com/db", "failed"),
        ("postgresql://u:p@db.example.com/db?sslmode=require", "failed"),
        ("postgresql://u:p@db.example.com/db?sslmode=verify-full", "ok"),
    ],
)
def test_a_database_that_does_not_prove_itself_is_a_failure(dsn, health):
    check = hardening_files.check_database(dsn)
    assert (check.health, ":p@" in check.found) == (health, False)


@pytest.mark.parametrize(
    ("url", "health"),
    [
        ("", "ok"),
        ("nats://127.0.0.1:4222", "ok"),
        ("nats://user:pass@bus.example.com:4222", "failed"),
        ("tls://bus.example.com:4222", "ok"),
    ],
)
def test_a_bus_in_clear_is_a_failure(url, health):
    check = hardening_files.check_bus(url)
    assert (check.health, "pass" in check.found) == (health, False)


@pytest.mark.parametrize(
    ("is_own", "env", "health"),
    [
        (False, {}, "ok"),
        (True, {}, "failed"),
        (True, {"HEADRACE_NATS_CREDS": "all.creds"}, "warning"),
    ],
)
def test_a_bus_that_tells_nobody_apart_has_a_line(is_own, env, health):
    wanted = Settings(nodes=0, gpus="auto", external_nats=is_own)
    assert hardening_files.check_bus_logins(wanted, env).health == health


@pytest.mark.parametrize(
    ("proxies", "url", "health"),
    [
        ("", "http://127.0.0.1:7400", "ok"),
        ("", "https://headrace.example.com", "warning"),
        ("10.0.0.7", "https://headrace.example.com", "ok"),
        ("10.0.0.7, 0.0.0.0/0", "https://headrace.example.com", "failed"),
    ],
)
def test_a_proxy_is_believed_by_name_or_not_at_all(proxies, url, health):
    wanted = Settings(nodes=0, gpus="auto")
    assert hardening_files.check_proxy(proxies, wanted, url).health == health


def test_a_disk_below_the_reserve_is_a_failure(layout):
    assert hardening_files.check_disk(layout, {hardening_files.RESERVE: "0"}).health == "ok"
    much = {hardening_files.RESERVE: str(10**18)}
    assert hardening_files.check_disk(layout, much).health == "failed"


def test_a_log_whose_head_is_noted_elsewhere_is_well():
    assert hardening_files.check_noted({}).health == "warning"
    assert hardening_files.check_noted({hardening_files.NOTED: "215:3f2a"}).health == "ok"


def test_verify_compares_with_the_head_that_the_environment_notes(monkeypatch):
    monkeypatch.setenv(hardening_files.NOTED, "215:3f2a")
    parser = Parser(prog="headrace verify")
    verify_options(parser)
    assert parser.keywords([])["noted"] == (215, b"\x3f\x2a")
    assert parser.keywords(["--noted", "7:00"])["noted"] == (7, b"\x00")


async def test_doctor_tells_all_of_it_as_json_and_fails_on_an_open_platform(
    world, headrace, layout, tmp_path
):
    await in_log(world, *tree(), joined("n1", UNISOLATED, EVERYBODY))
    words = ("--dir", str(tmp_path / "node"), "--data-dir", str(layout.data_dir))
    code, out, _ = await headrace("doctor", "--security", "-o", "json", *words)
    found = {check["name"]: check["health"] for check in json.loads(out)}
    assert code == 1
    assert (found["nodes"], found["secrets"], found["noted"]) == ("failed", "ok", "warning")
    assert "kernel" in found, "the machine's own weak spots too"
    code, out, _ = await headrace("doctor", "--security", *words)
    assert (code, "  fix: " in out) == (1, True)

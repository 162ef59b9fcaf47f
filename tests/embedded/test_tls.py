"""The bus over TLS: who it is proven to be, and for how long a node may sign in."""

import asyncio
import time

import pytest

from headrace import trust
from headrace.bus import credentials
from headrace.bus.interface import NotConnected
from headrace.bus.nats import NatsBus
from headrace.embedded import EmbeddedError, secrets, settings
from headrace.embedded.layout import Layout
from headrace.embedded.nats import Nats
from headrace.trust.self_signed import self_signed

WAIT_S = 60.0


@pytest.fixture
def layout(tmp_path, monkeypatch):
    for name in ("HEADRACE_PG_DSN", "HEADRACE_NATS_URL"):
        monkeypatch.delenv(name, raising=False)
    found = Layout(tmp_path / "data")
    found.create()
    secrets.ensure(found, ("placement",))
    return found


@pytest.fixture
def server(layout):
    wanted = settings.settle(layout, settings.Wanted(tls_self_signed=True))
    certificate, key = secrets.certificate(layout, wanted)
    server = Nats(
        layout.nats,
        authentication=secrets.bus_authentication(layout),
        certificate=certificate,
        private_key=key,
    )
    server.start()
    yield server
    server.stop()


def write_login(layout, node, *, expires_at_s=0):
    """A node's login, in a file that may be written anew."""
    account = (layout.secrets / "account.seed").read_text()
    seed = credentials.new_user_seed()
    jwt = credentials.user_jwt(
        account,
        credentials.public_key(seed),
        node,
        credentials.node_permissions(node),
        expires_at_s=expires_at_s,
    )
    path = layout.data_dir / "login.creds"
    path.write_text(credentials.creds_text(jwt, seed))
    return path


def connect(server, layout, certificate=None):
    pinned = layout.secrets / "tls.pem" if certificate is None else certificate
    creds = layout.data_dir / "login.creds"
    return NatsBus.connect(server.url, creds_path=creds, certificate=pinned)


async def test_a_node_signs_in_over_tls_and_anew_when_its_login_was_renewed(server, layout):
    assert server.url.startswith("tls://")
    write_login(layout, "n1")
    bus = await connect(server, layout)
    service = await NatsBus.connect(
        server.url,
        creds_path=secrets.creds_file(layout, "placement"),
        certificate=layout.secrets / "tls.pem",
    )
    try:
        heard = asyncio.Event()

        async def hear(_):
            heard.set()

        write_login(layout, "n2")
        await bus.reconnect()
        async with asyncio.timeout(WAIT_S):
            while not bus.connected:  # noqa: ASYNC110  # of another task, with a deadline
                await asyncio.sleep(0.01)
            await bus.subscribe("headrace.agent.n2.down.desired", hear)
            while not heard.is_set():
                await service.publish("headrace.agent.n2.down.desired", b"")
                await asyncio.sleep(0.01)
    finally:
        await bus.close()
        await service.close()


async def test_a_login_that_has_expired_is_refused(server, layout):
    write_login(layout, "n1", expires_at_s=int(time.time()) - 1)
    with pytest.raises(NotConnected):
        await connect(server, layout)


async def test_a_bus_with_another_certificate_is_not_ours(server, layout, tmp_path):
    write_login(layout, "n1")
    other = tmp_path / "other.pem"
    other.write_bytes(self_signed(["localhost"])[0])
    for certificate in (other, ""):
        with pytest.raises(NotConnected, match="certificate"):
            await connect(server, layout, certificate)


def test_who_answers_is_pinned_by_the_fingerprint_of_its_certificate():
    pem, _ = self_signed(["localhost", "127.0.0.1"])
    text = pem.decode()
    assert len(trust.fingerprint(text)) == 43
    assert trust.fingerprint(f"# a chain\n{text}{text}") == trust.fingerprint(text)
    with pytest.raises(ValueError, match="no certificate in it"):
        trust.context_of("nothing")


@pytest.mark.parametrize(
    ("wanted", "line"),
    [
        ({"tls_certificate": "c.pem"}, "--tls-cert — needs --tls-key"),
        ({"tls_self_signed": True, "tls_certificate": "c", "tls_key": "k"}, "not beside"),
    ],
)
def test_options_of_tls_that_do_not_go_together_are_refused(layout, wanted, line):
    with pytest.raises(EmbeddedError, match=line):
        settings.settle(layout, settings.Wanted(**wanted))


def test_a_certificate_that_cannot_be_read_is_named(layout):
    wanted = settings.Wanted(tls_certificate="/no/such.pem", tls_key="/no/such.key")
    settled = settings.settle(layout, wanted)
    with pytest.raises(EmbeddedError, match=r"/no/such\.pem cannot be read"):
        secrets.certificate(layout, settled)

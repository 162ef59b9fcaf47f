"""What a credential made here lets its holder do, as the server enforces it."""

from __future__ import annotations

import shutil

import nats
import pytest
from tests.conftest import NatsServer
from tests.contract.buses import Heard
from tests.logins import EVERYTHING

from headrace.bus import credentials as c
from headrace.bus.interface import NotConnected, StreamSpec
from headrace.bus.nats import NatsBus

ACCOUNT_SEED = c.new_account_seed()
NODE = c.node_permissions("gpu-1")
PUBLISHER = c.publisher_permissions("ads", "etl")


@pytest.fixture(scope="module")
def server(server_folder):
    base = server_folder / "nats-credentials"
    trust = c.server_config(c.new_operator_seed(), ACCOUNT_SEED, c.new_account_seed())
    server = NatsServer(base, trust)
    yield server
    server.stop()
    shutil.rmtree(base, ignore_errors=True)


@pytest.fixture
async def service(server, connect):
    """Hears and says everything."""
    creds = c.new_creds(ACCOUNT_SEED, "admission", EVERYTHING)
    return await connect(server.url, creds_text=creds, inbox_prefix="_SERVICES")


class User:
    """A bare connection with a user's credential, and what the server refused it."""

    def __init__(self):
        self.refused = []

    async def open(self, url, path, inbox):
        async def failed(error):
            self.refused.append(str(error))

        self.client = await nats.connect(
            url, user_credentials=str(path), error_cb=failed, inbox_prefix=inbox
        )
        return self

    async def says(self, subject):
        """Whether the server takes a message on the subject."""
        before = len(self.refused)
        await self.client.publish(subject, b"x")
        return await self._taken(before)

    async def hears(self, subject):
        """Whether the server lets it listen."""
        before = len(self.refused)
        await self.client.subscribe(subject)
        return await self._taken(before)

    async def _taken(self, before):
        for _ in range(2):  # the first one overtakes what is pending
            await self.client.flush()
        return len(self.refused) == before


@pytest.fixture
async def user(server, tmp_path):
    """Makes users with given permissions."""
    made = []

    async def one(name, permissions):
        path = tmp_path / f"{name}.creds"
        path.write_text(c.new_creds(ACCOUNT_SEED, name, permissions))
        user = await User().open(server.url, path, f"_INBOX_pub_ads_{name}")
        made.append(user)
        return user

    yield one
    for user in made:
        await user.client.close()


@pytest.mark.parametrize(
    ("permissions", "subject"),
    [
        (NODE, "headrace.agent.gpu-1.up.hello"),
        (PUBLISHER, "headrace.request.ads.etl.job.submit"),
        (PUBLISHER, "headrace.post.ads.etl.job.cancel"),
    ],
)
async def test_a_user_says_what_is_its_own(user, service, permissions, subject):
    heard = Heard()
    await service.subscribe(subject, heard)
    assert await (await user("one", permissions)).says(subject)
    await heard.count(1)


@pytest.mark.parametrize(
    ("permissions", "subject"),
    [
        (NODE, "headrace.agent.gpu-2.up.hello"),
        (NODE, "headrace.agent.gpu-1.down.desired"),
        (NODE, "headrace.log.node.joined.v1"),
        (NODE, "headrace.request.ads.etl.job.submit"),
        (NODE, "headrace.gateway.fleet.node.change"),
        (NODE, "headrace.event.ads.job.finished.v1"),
        (NODE, "$JS.API.INFO"),
        (PUBLISHER, "headrace.request.vision.etl.job.submit"),
        (PUBLISHER, "headrace.request.ads.other.job.submit"),
        (PUBLISHER, "headrace.request.ads.job.submit"),
        (PUBLISHER, "headrace.request.ads.etl.secret.set"),
        (PUBLISHER, "headrace.post.vision.etl.job.submit"),
        (PUBLISHER, "headrace.post.ads.etl.queue.apply"),
        (PUBLISHER, "headrace.gateway.ads.job.submit"),
        (PUBLISHER, "headrace.log.job.requested.v1"),
        (PUBLISHER, "headrace.relay.log.job.requested.v1"),
        (PUBLISHER, "headrace.event.ads.job.finished.v1"),
        (PUBLISHER, "headrace.deadletter.x"),
        (PUBLISHER, "headrace.agent.gpu-1.up.hello"),
        (PUBLISHER, "_SERVICES.x"),
        (PUBLISHER, "$JS.API.STREAM.DELETE.LOG"),
        (PUBLISHER, "$JS.API.STREAM.MSG.GET.LOG"),
        (PUBLISHER, "$SYS.REQ.SERVER.PING"),
    ],
)
async def test_a_user_says_nothing_else(user, permissions, subject):
    one = await user("one", permissions)
    assert not await one.says(subject)
    assert "permissions violation" in one.refused[0].lower()


@pytest.mark.parametrize(
    ("permissions", "subject"),
    [
        (NODE, "headrace.agent.gpu-1.down.>"),
        (NODE, "_INBOX_gpu-1.x"),
        (PUBLISHER, "headrace.event.ads.>"),
        (PUBLISHER, "_INBOX_pub_ads_etl.x"),
    ],
)
async def test_a_user_hears_what_is_for_it(user, permissions, subject):
    assert await (await user("one", permissions)).hears(subject)


@pytest.mark.parametrize(
    ("permissions", "subject"),
    [
        (NODE, "headrace.log.>"),
        (NODE, "headrace.relay.>"),
        (NODE, "headrace.event.>"),
        (NODE, "headrace.agent.gpu-2.down.desired"),
        (NODE, "headrace.agent.gpu-2.up.hello"),
        (NODE, "_INBOX_gpu-2.>"),
        (NODE, "_SERVICES.>"),
        (NODE, ">"),
        (PUBLISHER, "headrace.log.>"),
        (PUBLISHER, "headrace.event.vision.>"),
        (PUBLISHER, "headrace.event.*.job.*"),
        (PUBLISHER, "headrace.request.ads.>"),
        (PUBLISHER, "headrace.post.ads.>"),
        (PUBLISHER, "_SERVICES.>"),
        (PUBLISHER, "_INBOX.>"),
        (PUBLISHER, "_INBOX_pub_ads_other.>"),
        (PUBLISHER, "_INBOX_pub_vision_etl.>"),
        (PUBLISHER, "_INBOX_gpu-1.>"),
        (PUBLISHER, "$JS.>"),
        (PUBLISHER, ">"),
    ],
)
async def test_a_user_hears_nothing_else(user, permissions, subject):
    assert not await (await user("one", permissions)).hears(subject)


async def test_a_node_answers_who_asks_it_and_once(user, service):
    node = await user("gpu-1", NODE)

    async def answer(message):
        await message.respond(b"lines")
        await message.respond(b"more")

    await node.client.subscribe("headrace.agent.gpu-1.down.logs", cb=answer)
    for _ in range(2):
        await node.client.flush()
    heard = Heard()
    await service.subscribe("_SERVICES.>", heard)
    asked = await service.request("headrace.agent.gpu-1.down.logs", b"", timeout_s=60)
    assert asked.data == b"lines"
    assert not await node.says("_SERVICES.anything")
    assert heard.data == [b"lines"]


async def test_a_publisher_is_asked_for_nothing_but_may_keep_a_request(user, service):
    spec = StreamSpec(
        name="KEPT", subjects=("headrace.post.>",), age_s_max=60, bytes_max=2**20,
        acknowledged=False,
    )  # fmt: skip
    await service.ensure_stream(spec)
    publisher = await user("etl", PUBLISHER)
    await publisher.client.publish("headrace.post.ads.etl.job.submit", b"{}")
    await publisher.client.flush()
    while (await service.stream_state("KEPT")).messages < 1:
        await publisher.client.flush()
    with pytest.raises(nats.errors.TimeoutError):
        await publisher.client.jetstream(timeout=0.2).stream_info("KEPT")
    await service.delete_stream("KEPT")


@pytest.mark.parametrize("name", ["a.b", "*", ">", "", "A", "a b", "-a", "a\n", "ü"])
def test_no_name_widens_what_is_allowed(name):
    with pytest.raises(ValueError, match="must be 1 to 63"):
        c.node_permissions(name)
    with pytest.raises(ValueError, match="must be 1 to 63"):
        c.publisher_permissions(name, "etl")
    with pytest.raises(ValueError, match="must be 1 to 63"):
        c.publisher_permissions("ads", name)


async def test_who_has_no_credential_or_a_strangers_is_not_let_in(server):
    stranger = c.new_creds(c.new_account_seed(), "admission", EVERYTHING)
    for creds in ("", stranger):
        with pytest.raises(NotConnected, match=r"(?i)authoriz"):
            await let_in(server.url, creds)


async def test_a_stolen_token_without_its_key_is_not_let_in(server):
    user = c.public_key(c.new_user_seed())
    jwt = c.user_jwt(ACCOUNT_SEED, user, "admission", EVERYTHING)
    with pytest.raises(NotConnected):
        await let_in(server.url, c.creds_text(jwt, c.new_user_seed()))


def test_a_users_key_is_told_from_anything_else():
    key = c.public_key(c.new_user_seed())
    assert c.is_user_key(key)
    other = "A" if key[-1] != "A" else "B"
    for wrong in (
        "", key[:-1], key + "A", key[:-1] + other, key.lower(), c.new_user_seed(), "Ü" * 56,
        c.public_key(c.new_account_seed()),
    ):  # fmt: skip
        assert not c.is_user_key(wrong), wrong


async def let_in(url, creds):
    bus = await NatsBus.connect(url, creds_text=creds)
    await bus.close()

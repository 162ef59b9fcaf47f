"""Logins that are refused although they have not expired: of nodes that were deleted."""

from __future__ import annotations

import asyncio

import pytest
from tests.conftest import NatsServer

from headrace.bus import credentials as c
from headrace.bus import revoking
from headrace.bus.handling import end
from headrace.bus.interface import NotConnected
from headrace.bus.nats import NatsBus
from headrace.bus.revoking import Revoker

OPERATOR, ACCOUNT, SYSTEM = c.new_operator_seed(), c.new_account_seed(), c.new_account_seed()
REVOKER = c.new_creds(SYSTEM, "revoker", c.revoker_permissions(c.public_key(ACCOUNT)))
WAIT_S = 60.0


class Node:
    """Who has a login as a node."""

    def __init__(self, url: str, name: str) -> None:
        seed = c.new_user_seed()
        self.key = c.public_key(seed)
        jwt = c.user_jwt(ACCOUNT, self.key, name, c.node_permissions(name))
        self._url, self._creds = url, c.creds_text(jwt, seed)
        self.lost = asyncio.Event()

    async def sign_in(self) -> NatsBus:
        return await NatsBus.connect(self._url, creds_text=self._creds, on_lost=self.lost.set)

    async def is_refused(self) -> bool:
        """Whether the server takes the login: it says so, or lets it in."""
        while True:
            try:
                bus = await self.sign_in()
            except NotConnected as error:
                if "uthori" in str(error):
                    return True
            else:
                await bus.close()
                return False


@pytest.fixture
def server(tmp_path):
    server = NatsServer(tmp_path / "nats", c.server_config(OPERATOR, ACCOUNT, SYSTEM))
    yield server
    server.stop()


class Watched(NatsBus):
    """A connection of which it is known that it was answered."""

    answered = asyncio.Event()

    async def request(self, *args, **options):
        answer = await super().request(*args, **options)
        self.answered.set()
        return answer


@pytest.fixture
async def revoker(server, monkeypatch):
    monkeypatch.setattr(revoking, "SETTLE_S", 0.0)
    monkeypatch.setattr(Watched, "answered", asyncio.Event())

    async def connect():
        options = {"creds_text": REVOKER, "inbox_prefix": "_INBOX_revoker"}
        return await Watched.connect(server.url, **options)

    monkeypatch.setattr(revoking, "LOOK_S", 0.05)
    revoker = Revoker(connect, operator_seed=OPERATOR, account_seed=ACCOUNT)
    running = asyncio.create_task(revoker.run())
    yield revoker
    await end(running)


async def until_refused(node, *, refused=True):
    async with asyncio.timeout(WAIT_S):
        while await node.is_refused() is not refused:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_a_revoked_key_is_cut_off_and_not_let_in_again_and_others_stay(server, revoker):
    gone, stays = Node(server.url, "n1"), Node(server.url, "n1")
    await gone.sign_in()
    bus = await stays.sign_in()

    revoker.refuse([gone.key])

    async with asyncio.timeout(WAIT_S):
        await gone.lost.wait()
    assert await gone.is_refused()
    assert bus.connected
    assert not await stays.is_refused()
    await bus.close()
    revoker.refuse([])
    await until_refused(gone, refused=False)


async def test_a_server_that_nobody_has_signed_in_to_is_told_until_it_takes_them(server, revoker):
    gone = Node(server.url, "n1")
    revoker.refuse([gone.key])
    async with asyncio.timeout(WAIT_S):
        await Watched.answered.wait()
    await until_refused(gone)


async def test_a_server_that_starts_anew_is_told_again(server, revoker):
    gone = Node(server.url, "n1")
    revoker.refuse([gone.key])
    await until_refused(gone)

    await asyncio.get_running_loop().run_in_executor(None, server.restart)

    await until_refused(gone)


async def test_a_server_that_is_away_is_told_when_it_is_back(server, revoker, monkeypatch):
    monkeypatch.setattr(revoking, "RETRY_S_FIRST", 0.05)
    monkeypatch.setattr(revoking, "RETRY_S_MAX", 0.05)
    gone = Node(server.url, "n1")
    server.kill()
    revoker.refuse([gone.key])
    await asyncio.get_running_loop().run_in_executor(None, server.start)
    await until_refused(gone)


async def test_who_revokes_may_do_nothing_else(server):
    bus = await NatsBus.connect(server.url, creds_text=REVOKER, inbox_prefix="_INBOX_revoker")
    await bus.publish("$SYS.REQ.SERVER.PING", b"")
    async with asyncio.timeout(WAIT_S):
        while not bus.counters["permission_errors"]:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await bus.close()

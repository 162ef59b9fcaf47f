"""How machines join through the gateway: what is asked of admission, who is let in, how often."""

import base64
import time

import msgspec
import pytest

from headrace.bus import credentials
from headrace.client.connection import Connection
from headrace.client.errors import ClientError, Refused
from headrace.client.model import signed_text
from headrace.events.members import JoinWaiting, MemberAdmitted, TokenCreated, TokenRevoked
from headrace.events.nodes import NodeChanged, NodeJoined
from headrace.gateway.limiting import BURST, Limiter
from headrace.gateway.trust import Trust
from headrace.trust import join_token

SEED = credentials.new_user_seed()
KEY = credentials.public_key(SEED)
BOX = base64.b64encode(b"b" * 32).decode()


def accepted(**more):
    return lambda _: {"accepted": True, "position": 0, **more}


def post(world, path, body):
    connection = Connection(world.url, "")
    try:
        return connection.change("POST", path, msgspec.json.encode(body), key=lambda: "")
    finally:
        connection.close()


def signing(at_s=None, node="n3", seed=SEED):
    at_s = int(time.time()) if at_s is None else at_s
    return {
        "node": node,
        "public_key": credentials.public_key(seed),
        "at_s": at_s,
        "signature": credentials.sign(SEED, signed_text("n3", at_s)),
    }


async def test_a_token_is_made_of_which_the_platform_sees_the_digest_alone(world):
    await world.answer("access.create-token", accepted())
    token = await world.call(world.client().create_join_token, uses=2, lasts_s=60)
    (asked,) = world.asked
    assert msgspec.json.decode(asked.data) == {
        "token": token.id, "digest": token.digest, "uses": 2, "lasts_s": 60, "auto_approve": False,
    }  # fmt: skip
    assert token.secret not in repr(asked)
    assert join_token.parse(token.text()) == token


async def test_a_machine_joins_without_our_token_and_its_own_ends_at_the_door(world):
    await world.answer("access.join", accepted(change="waiting"))
    token = join_token.new()
    body = {"node": "n3", "token": token.text(), "public_key": KEY, "box_key": BOX, "host": "box"}
    body |= {"at_s": 7, "signature": "s"}
    answer = await world.call(post, world, "/v1/join", body)
    assert answer.change == "waiting"
    (asked,) = world.asked
    assert msgspec.json.decode(asked.data) == {
        "node": "n3", "token": token.id, "digest": token.digest, "public_key": KEY, "box_key": BOX,
        "at_s": 7, "signature": "s", "host": "box", "address": "127.0.0.1",
    }  # fmt: skip
    assert token.secret not in repr(asked)


async def test_what_is_no_token_is_refused_without_repeating_it(world):
    body = {"node": "n3", "token": "hrj_typo", "public_key": KEY, "box_key": BOX}
    body |= {"at_s": 7, "signature": "s"}
    with pytest.raises(Refused) as refused:
        await world.call(post, world, "/v1/join", body)
    assert "this is no join token" in str(refused.value)
    assert "typo" not in str(refused.value)


async def test_a_machine_that_waits_is_told_so_and_shown_among_the_nodes(world):
    waiting = JoinWaiting(node="n3", token="t", public_key=KEY, box_key=BOX, host="box")
    await world.append(waiting)
    await world.gateway.follower.reached(1)
    answer = await world.call(post, world, "/v1/credential", signing())
    assert (answer.accepted, answer.change, world.asked) == (False, "waiting", [])
    (row,) = await world.call(world.client().nodes)
    assert (row.node, row.state, row.host) == ("n3", "waiting", "box")
    await world.append(MemberAdmitted(node="n3", public_key=KEY, box_key=BOX))
    await world.gateway.follower.reached(2)
    assert await world.call(world.client().nodes) == []


async def test_a_member_gets_its_credential_and_where_to_use_it(world):
    await world.answer("access.credential", accepted(jwt="the-jwt"))
    world.gateway.trust = Trust(bus_url="tls://:4222", grant_key=b"g" * 32)
    answer = await world.call(post, world, "/v1/credential", signing())
    assert (answer.jwt, answer.bus) == ("the-jwt", "tls://:4222")
    assert base64.b64decode(answer.grant_key) == b"g" * 32


@pytest.mark.parametrize(
    ("body", "line"),
    [
        (lambda: signing(at_s=1), "s behind the platform's clock; set it by NTP"),
        (lambda: signing(node="n4"), "is not that of this key over this node and time"),
        (lambda: signing(seed=credentials.new_user_seed()), "is not that of this key"),
        (lambda: signing() | {"signature": "?"}, "is not that of this key"),
        (lambda: signing() | {"public_key": "U"}, "is not that of this key"),
    ],
)
async def test_who_does_not_hold_the_key_gets_nothing(world, body, line):
    with pytest.raises(Refused, match=line):  # signed now: a run may have begun minutes ago
        await world.call(post, world, "/v1/credential", body())
    assert world.asked == []


async def test_tokens_are_listed_without_what_lets_anybody_in(world):
    later_us = time.time_ns() // 1000 + 60_000_000
    made = [
        TokenCreated(token=token, digest="d" * 64, uses=uses, expires_at_us=expires_at_us)
        for token, uses, expires_at_us in (("t1", 1, 1), ("t2", 1, later_us), ("t3", 2, later_us),
                                           ("t4", 1, later_us))
    ]  # fmt: skip
    await world.append(
        *made,
        JoinWaiting(node="n2", token="t2", public_key="U2", box_key=BOX),
        MemberAdmitted(node="n2", token="t2", public_key="U2", box_key=BOX),
        MemberAdmitted(node="n3", token="t3", public_key="U3", box_key=BOX),
        TokenRevoked(token="t4"),
    )
    await world.gateway.follower.reached(8)

    rows = await world.call(world.client().join_tokens)

    assert [(row.token, row.state, row.nodes) for row in rows] == [
        ("t4", "revoked", []), ("t3", "open", ["n3"]), ("t2", "used", ["n2"]), ("t1", "expired", []),
    ]  # fmt: skip
    assert "d" * 64 not in repr(rows)


async def test_everything_else_about_joining_needs_the_admins_token(world):
    for path in ("/v1/join-tokens", "/v1/nodes/n3/approval"):
        with pytest.raises(ClientError, match="a token is needed"):
            await world.call(post, world, path, {})


async def test_a_deleted_node_is_listed_no_more(world):
    said = NodeJoined(node="n3", host="box", address="a", boot="b", incarnation="i", public_key=BOX)
    await world.append(said, NodeChanged(node="n3", change="delete"))
    await world.gateway.follower.reached(2)
    assert await world.call(world.client().nodes) == []


def test_an_address_has_its_burst_and_then_its_rate():
    now_s = [0.0]
    limiter = Limiter(lambda: now_s[0])
    assert sum(limiter.takes("a") for _ in range(BURST + 50)) == BURST
    assert limiter.takes("b"), "another address has its own"
    now_s[0] += 1
    assert [limiter.takes("a") for _ in range(6)] == [True] * 5 + [False]

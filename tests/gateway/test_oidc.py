"""Logins of an identity provider: what is believed, and everything that is not."""

from __future__ import annotations

import json
import time

import pytest
from joserfc.jwk import RSAKey
from tests.gateway.histories import requested
from tests.gateway.issuer import AUDIENCE, Issuer, encoded
from tests.gateway.people import configured, person, secret_of, tree
from tests.gateway.world import until

from headrace.client import ClientError
from headrace.events.people import AccessSignedIn, UserRemoved
from headrace.events.queues import Listed
from headrace.gateway import oidc
from headrace.gateway.oidc import Oidc
from headrace.gateway.oidc_settings import OidcSettings

MEMBERS = (Listed(member="group:vision-team", role="researcher"),)


@pytest.fixture
def issuer():
    made = Issuer()
    yield made
    made.close()


@pytest.fixture
async def world(world, issuer):
    world.clock_s = 0.0
    settings = OidcSettings(issuer=issuer.url, audience=AUDIENCE)
    world.gateway.authenticator.provider = Oidc(settings, lambda: world.clock_s)
    world.gateway.follower._clock.not_below(int(time.time() * 1e6))
    members = configured("vision", "research", members=MEMBERS)
    position = await world.append(*tree(), members, requested("hello-a"))
    await world.gateway.follower.reached(position)
    return world


async def who(world, token):
    return await world.call(world.client(token).whoami)


def unsigned(issuer, **claims):
    """`alg: none`, as RFC 7519 §6 has it."""
    return f"{encoded({'alg': 'none', 'kid': 'k1'})}.{encoded(issuer.claims(**claims))}."


async def test_a_login_has_the_roles_of_its_groups(world, issuer):
    me = await who(world, issuer.token())
    assert (me.user, [(r.role, r.scope) for r in me.roles]) == (
        "ada@example.com",
        [("researcher", "vision")],
    )
    jobs = await world.call(world.client(issuer.token()).jobs)
    assert [row.job for row in jobs.jobs] == ["hello-a"]
    stranger = await who(world, issuer.token(groups=["others"]))
    assert stranger.roles == []
    with pytest.raises(ClientError, match=r"access = job\.read"):
        await world.call(world.client(issuer.token(groups=None)).jobs)


NOT_TRUE = ("true", "false", 1, {})


async def test_what_is_not_signed_by_the_provider_for_us_and_now_is_not_believed(world, issuer):
    now_s = int(time.time())
    foreign = RSAKey.generate_key(2048, {"kid": "k1", "use": "sig"})
    tampered = issuer.token().split(".")
    tampered[1] = unsigned(issuer, email="admin@example.com").split(".")[1]
    wrong = {
        "alg none": unsigned(issuer),
        "HS and RS confused": issuer.confused(),
        "another's key": issuer.token(key=foreign),
        "a key nobody has": issuer.token(kid="k9"),
        "tampered": ".".join(tampered),
        "for others": issuer.token(aud="grafana"),
        "asked by others": issuer.token(azp="x"),
        "for many, asked by others": issuer.token(aud=[AUDIENCE, "x"], azp="x"),
        "of another issuer": issuer.token(iss="https://accounts.example.com"),
        "expired": issuer.token(exp=now_s - 61),
        "without an end": issuer.token(exp=None),
        "with an end that is no time": issuer.token(exp="tomorrow"),
        "of the future": issuer.token(nbf=now_s + 120),
        "of nobody": issuer.token(email=None),
        "of an address not vouched for": issuer.token(email_verified=False),
        **{f"vouched for by {word!r}": issuer.token(email_verified=word) for word in NOT_TRUE},
        "with a beginning that is no time": issuer.token(nbf="tomorrow"),
        "made at no time": issuer.token(iat=True),
        "of the platform's own name": issuer.token(email="admin"),
        "with a name nobody can have": issuer.token(email="user:ada\n"),
        "cut off": issuer.token()[:-9],
    }
    believed = []
    for what, token in wrong.items():
        world.clock_s += oidc.KEYS_S_MIN
        try:
            await who(world, token)
        except ClientError as error:
            if "\n" not in str(error):
                continue
        believed.append(what)
    assert believed == []


async def test_clocks_may_differ_a_little(world, issuer):
    now_s = int(time.time())
    assert (await who(world, issuer.token(exp=now_s - 30))).user == "ada@example.com"
    assert (await who(world, issuer.token(nbf=now_s + 30, iat=now_s + 30))).user


async def test_keys_are_asked_for_again_when_one_is_new_and_not_for_every_token(world, issuer):
    old = issuer.token()
    await who(world, old)
    asked = issuer.asked
    issuer.rotate()
    with pytest.raises(ClientError):
        await who(world, issuer.token())
    assert issuer.asked == asked  # a flood of unknown keys is no flood of questions
    world.clock_s += oidc.KEYS_S_MIN
    assert (await who(world, issuer.token())).user == "ada@example.com"
    with pytest.raises(ClientError, match="key that the provider does not have"):
        await who(world, old)


async def test_a_key_that_was_withdrawn_is_forgotten_even_if_its_token_is_known(world, issuer):
    issuer.rotate(keep=True)
    first = issuer.token(key=issuer.listed[0])
    await who(world, first)
    issuer.listed = issuer.listed[1:]
    world.clock_s += oidc.KEYS_S_MAX + 1
    with pytest.raises(ClientError):
        await who(world, first)


async def test_a_provider_that_cannot_be_reached_keeps_its_keys(world, issuer):
    token = issuer.token()
    await who(world, token)
    issuer.close()
    world.clock_s += oidc.KEYS_S_MAX + 1
    assert (await who(world, token)).user == "ada@example.com"


async def test_a_removed_user_and_a_services_name_are_not_let_in(world, issuer):
    etl = "service:vision/etl"
    await world.append(UserRemoved(user="ada@example.com"), *person(etl), *person("service:etl"))
    await world.gateway.follower.reached(len(world.log.events))
    for email in (
        "ada@example.com",
        etl,
        "service:etl",
        "admin",
        "Admin",
        "placement",
        "vision/etl",
    ):
        with pytest.raises(ClientError, match=r"let in|nobody can be called"):
            await who(world, issuer.token(email=email))


async def test_groups_of_the_last_login_hold_for_the_api_tokens_of_a_person(world, issuer):
    await who(world, issuer.token())
    await until(lambda: world.reported)
    told = [m for m in world.reported if m.subject.endswith("signed-in")]
    body = {"user": "ada@example.com", "groups": ["vision-team"]}
    assert [json.loads(m.data) for m in told] == [body]
    token = person("ada@example.com")[-1]
    signed_in = AccessSignedIn(user="ada@example.com", groups=("vision-team",))
    await world.append(signed_in, token)
    await world.gateway.follower.reached(len(world.log.events))
    roles = (await who(world, secret_of("ada@example.com"))).roles
    assert [role.role for role in roles] == ["researcher"]
    await who(world, issuer.token())
    assert len([m for m in world.reported if m.subject.endswith("signed-in")]) == 1


def test_a_provider_without_an_audience_is_not_taken():
    with pytest.raises(ValueError, match="AUDIENCE"):
        OidcSettings.read({"HEADRACE_OIDC_ISSUER": "https://id.example"})
    assert OidcSettings.read({}) is None

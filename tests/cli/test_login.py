"""Signing in: with an identity provider, or with a token that somebody was given."""

import json
import time
import tomllib

import pytest
from tests.cli.program import accept, in_log
from tests.gateway.issuer import AUDIENCE, Issuer
from tests.gateway.people import configured, person, secret_of, token, tree

from headrace.cli import login
from headrace.gateway.oidc import Oidc
from headrace.gateway.oidc_settings import OidcSettings
from headrace.trust import api_token


@pytest.fixture
def issuer(world):
    made = Issuer()
    settings = OidcSettings(issuer=made.url, audience=AUDIENCE)
    world.gateway.authenticator.provider = Oidc(settings)
    world.gateway.follower._clock.not_below(int(time.time() * 1e6))
    yield made
    made.close()


def pending(word="authorization_pending"):
    return 400, {"error": word}


async def test_a_person_signs_in_at_the_provider_and_gets_a_token_of_their_own(
    world, headrace, issuer, monkeypatch, tmp_path
):
    monkeypatch.setattr(login, "INTERVAL_S", 0)
    made = api_token.ApiToken("ada", secret_of("ada"))
    monkeypatch.setattr(api_token, "new", lambda: made)
    issuer.answers = [pending(), (200, {"id_token": issuer.token(email="ada")})]
    await in_log(world, *tree(), *person("ada", ("researcher", "vision"))[:-1])
    await accept(world, "token.create")
    await in_log(world, token("ada"))
    code, out, _ = await headrace("login", world.url, "-p", "vision", "--token", "")
    assert code == 0
    assert "WDJB-MJHT" in out
    assert "you are ada: researcher of vision" in out
    asked = json.loads(world.asked[0].data)
    assert (asked["digest"], asked["lasts_s"]) == (made.digest, 7 * 86_400)
    kept = tomllib.loads((tmp_path / "headrace" / "config.toml").read_text())
    assert kept["contexts"][kept["current"]] == {
        "url": world.url,
        "token": made.text,
        "project": "vision",
    }
    assert (tmp_path / "headrace" / "config.toml").stat().st_mode & 0o77 == 0


async def test_who_says_no_at_the_provider_gets_one_line(world, headrace, issuer):
    issuer.answers = [pending("access_denied")]
    code, _, err = await headrace("login", world.url, "--token", "")
    assert (code, err) == (1, "headrace login: the identity provider answers: access_denied\n")


async def test_a_token_that_was_given_is_read_from_stdin_and_kept(world, headrace, tmp_path):
    await in_log(world, *tree(), configured("labs"), *person("ada", ("viewer", "zeta")))
    given = f"{secret_of('ada')}\n".encode()
    words = ("--token", "-", "--context", "lab.one")
    code, out, _ = await headrace("login", world.url, *words, stdin=given)
    assert (code, "you are ada: viewer of zeta" in out) == (0, True)
    kept = tomllib.loads((tmp_path / "headrace" / "config.toml").read_text())
    assert kept["contexts"]["lab.one"]["token"] == secret_of("ada")
    assert (await headrace("login", world.url, *words, stdin=given))[0] == 0
    assert (await headrace("login", world.url, "--token", "-", stdin=b"wrong\n"))[0] == 1


async def test_without_a_provider_login_says_what_to_do(world, headrace):
    code, _, err = await headrace("login", world.url, "--token", "")
    assert (code, err.count("\n"), "headrace token create" in err) == (1, 1, True)

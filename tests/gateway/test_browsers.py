"""Signing in with a browser: what its cookie opens, and who may ask with it."""

from __future__ import annotations

import asyncio
import http.client
import json
import time
from http.cookies import SimpleCookie
from urllib.parse import parse_qsl, urlsplit

import pytest
from tests.gateway.histories import finished, requested
from tests.gateway.issuer import AUDIENCE, Issuer
from tests.gateway.people import configured, tree
from tests.gateway.world import TOKEN

from headrace.events.people import UserRemoved
from headrace.events.queues import Listed
from headrace.gateway.browsers import AWAY_S_MAX, Browsers
from headrace.gateway.oidc import Oidc
from headrace.gateway.oidc_settings import OidcSettings

MEMBERS = (Listed(member="group:vision-team", role="researcher"),)


class Browser:
    """Keeps cookies for one host, and goes where it is sent only when it is told."""

    def __init__(self, url):
        self.host = urlsplit(url).netloc
        self.cookies = SimpleCookie()
        self.set = []  # as they came

    async def ask(self, method, address, **headers):
        return await asyncio.to_thread(self._ask, method, address, headers)

    def _ask(self, method, address, headers):
        jar = "; ".join(f"{name}={crumb.value}" for name, crumb in self.cookies.items())
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection(self.host, timeout=60)
        connection.request(method, address, headers={"Cookie": jar, **headers})
        answer = connection.getresponse()
        for crumb in answer.headers.get_all("Set-Cookie", []):
            self.set.append(crumb)
            self.cookies.load(crumb)
        return answer.status, answer.headers.get("Location", ""), answer.read()

    async def signed_in(self, issuer, to="/v1/me", **claims):
        """At the provider, and back; where it is sent to then."""
        _, page, _ = await self.ask("GET", f"/v1/login/browser?to={to}")
        return await self.ask("GET", issuer.authorize(page, **claims))


@pytest.fixture(scope="module")
def issuer():
    made = Issuer()
    yield made
    made.close()


@pytest.fixture
async def world(world, issuer):
    settings = OidcSettings(issuer=issuer.url, audience=AUDIENCE)
    world.gateway.authenticator.provider = Oidc(settings)
    world.gateway.follower._clock.not_below(int(time.time() * 1e6))
    members = configured("vision", "research", members=MEMBERS)
    await world.gateway.follower.reached(await world.append(*tree(), members))
    return world


async def test_a_browser_is_signed_in_by_a_cookie_that_only_this_host_and_no_script_gets(
    world, issuer
):
    browser = Browser(world.url)
    status, to, body = await browser.signed_in(issuer, to="/v1/projects")
    assert (status, to, body) == (303, "/v1/projects", b"")
    assert (await browser.ask("GET", to))[0] == 200
    _, _, me = await browser.ask("GET", "/v1/me")
    assert json.loads(me)["user"] == "ada@example.com"
    for crumb in browser.set:
        assert {"Path=/", "HttpOnly", "SameSite=Lax"} <= set(crumb.split("; "))
        assert "Domain" not in crumb
        assert "ey" not in crumb.split("=")[1][:2]  # no token


async def test_what_is_asked_of_the_provider_proves_who_asks(world):
    _, page, _ = await Browser(world.url).ask("GET", "/v1/login/browser")
    asked = dict(parse_qsl(urlsplit(page).query))
    assert asked["response_type"] == "code"
    assert asked["code_challenge_method"] == "S256"
    assert asked["redirect_uri"] == f"{world.url}/v1/login/return"
    _, again, _ = await Browser(world.url).ask("GET", "/v1/login/browser")
    other = dict(parse_qsl(urlsplit(again).query))
    assert not {asked[n] for n in ("state", "nonce", "code_challenge")} & set(other.values())


async def test_a_return_counts_once_and_in_the_browser_that_left(world, issuer):
    mine, theirs = Browser(world.url), Browser(world.url)
    _, page, _ = await mine.ask("GET", "/v1/login/browser")
    await theirs.ask("GET", "/v1/login/browser")
    back = issuer.authorize(page)
    status, _, said = await theirs.ask("GET", back)
    assert (status, b"not begun in this browser" in said) == (400, True)
    assert (await mine.ask("GET", back))[0] == 400  # the other has used it up
    assert (await mine.signed_in(issuer))[0] == 303
    assert (await mine.ask("GET", "/v1/login/return?state=&code=x"))[0] == 400


async def test_a_login_of_another_sign_in_or_of_nobody_is_none(world, issuer):
    browser = Browser(world.url)
    assert (await browser.signed_in(issuer, nonce="other"))[0] == 401
    assert (await browser.signed_in(issuer, aud="others"))[0] == 401
    _, page, _ = await browser.ask("GET", "/v1/login/browser")
    back = issuer.authorize(page)
    issuer.codes.clear()
    assert (await browser.ask("GET", back))[0] == 503
    _, page, _ = await browser.ask("GET", "/v1/login/browser")
    denied = issuer.authorize(page).replace("code=", "error=access_denied&other=")
    assert (await browser.ask("GET", denied))[0] == 401
    assert (await browser.ask("GET", "/v1/me"))[0] == 401


async def test_nobody_is_sent_to_another_host(world):
    for to in ("//evil.example/", "/%5Cevil.example", "https://evil.example", "a"):
        status, _, _ = await Browser(world.url).ask("GET", f"/v1/login/browser?to={to}")
        assert status == 400, to


OWN = {"Sec_Fetch_Site": "same-origin"}
LINK = {"Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document"}


ASKED = (
    ("GET", {}, 200),
    ("GET", OWN, 200),
    ("GET", {"Sec_Fetch_Site": "cross-site", **LINK}, 200),
    ("GET", {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "no-cors"}, 403),
    ("GET", {"Sec_Fetch_Site": "same-site", "Sec_Fetch_Mode": "cors"}, 403),
    ("GET", {"Origin": "http://evil.example"}, 403),
    ("POST", {"Origin": "http://notebook.head.example"}, 403),
    ("POST", {"Sec_Fetch_Site": "cross-site", **LINK}, 403),
)


async def test_only_our_own_pages_ask_with_a_cookie(world, issuer):
    browser = Browser(world.url)
    await browser.signed_in(issuer)
    for method, headers, status in ASKED:
        path = "/v1/me" if method == "GET" else "/v1/tokens"
        got, _, said = await browser.ask(method, path, **headers)
        assert (got, b"a page of another place" in said) == (status, status == 403), headers
        if method == "GET":  # a program that shows its token is no page
            bearer = {"Authorization": f"Bearer {issuer.token()}"}
            assert (await browser.ask(method, path, **headers, **bearer))[0] == 200


async def test_who_signs_out_or_is_let_in_no_more_is_out(world, issuer):
    browser, other = Browser(world.url), Browser(world.url)
    await browser.signed_in(issuer)
    await other.signed_in(issuer)
    kept = browser.cookies["headrace"].value
    assert (await browser.ask("POST", "/v1/logout", Origin="http://evil.example"))[0] == 403
    assert (await browser.ask("POST", "/v1/logout"))[0] == 204
    assert browser.cookies["headrace"].value == ""
    browser.cookies["headrace"] = kept
    assert (await browser.ask("GET", "/v1/me"))[0] == 401
    assert (await other.ask("GET", "/v1/me"))[0] == 200
    gone = await world.append(UserRemoved(user="ada@example.com"))
    await world.gateway.follower.reached(gone)
    assert (await other.ask("GET", "/v1/me"))[0] == 401


async def test_a_cookie_ends_with_its_token(world, issuer):
    browser = Browser(world.url)
    await browser.signed_in(issuer, exp=int(time.time()) + 5)
    assert (await browser.ask("GET", "/v1/me"))[0] == 200
    world.gateway.follower._clock.not_below(int((time.time() + 120) * 1e6))
    assert (await browser.ask("GET", "/v1/me"))[0] == 401


async def test_without_a_provider_the_way_is_said(world):
    world.gateway.authenticator.provider = None
    status, _, said = await Browser(world.url).ask("GET", "/v1/login/browser")
    assert (status, b"headrace login signs in" in said) == (404, True)


def test_who_stays_away_too_long_begins_anew():
    now_s = 0.0
    browsers = Browsers(lambda: now_s)
    entrance = type("Entrance", (), {"client_id": "c", "authorize_url": "https://p/?a=1"})
    state, page = browsers.leave(entrance, "http://h/v1/login/return", "/", "192.0.2.1")
    assert page.startswith("https://p/?a=1&response_type=code&")
    now_s = AWAY_S_MAX
    assert browsers.came_back(state, {"cookie": f"headrace_away={state}"}) is None


async def test_no_answer_is_ever_a_page(world):
    await world.append(requested("hello-a"), finished("hello-a"))
    markup = "/v1/jobs?user=%3Cscript%3Ealert(1)%3C/script%3E&sort=%3Cb%3E"
    for path in ("/v1/me", markup, "/v1/jobs/hello-a/logs", "/nothing", "/livez", "/v1/login"):
        connection = http.client.HTTPConnection(urlsplit(world.url).netloc, timeout=60)
        headers = {"Authorization": f"Bearer {TOKEN}"}

        def ask(connection=connection, path=path, headers=headers):
            connection.request("GET", path, headers=headers)
            return connection.getresponse()

        answer = await asyncio.to_thread(ask)
        assert answer.headers["X-Content-Type-Options"] == "nosniff", path
        assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'"), path
        assert "html" not in answer.headers.get("Content-Type", ""), path
        connection.close()

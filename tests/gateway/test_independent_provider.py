"""Sign in with a provider that we did not write: the whole device flow, keys and claims as it has them."""

from __future__ import annotations

import asyncio
import http.cookiejar
import json
import os
import re
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
from tests.gateway.people import configured, tree

from headrace.cli import login
from headrace.client import Client
from headrace.events.queues import Listed
from headrace.gateway.oidc import Oidc
from headrace.gateway.oidc_settings import OidcSettings

pytestmark = pytest.mark.oidc

PROVIDER = Path(__file__).with_name("provider.mjs")
START_S_MAX = 30.0


@pytest.fixture
def issuer():
    """Its address. `HEADRACE_OIDC_PROVIDER` is the folder where npm installed it."""
    folder = os.environ["HEADRACE_OIDC_PROVIDER"]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with subprocess.Popen(
        ["node", str(PROVIDER), folder, str(port)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.strip() == "ready":
                break
        yield f"http://127.0.0.1:{port}"
        process.kill()


class Browser:
    """Somebody who types in the code, signs in, and agrees."""

    def __init__(self):
        cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        self._opener = urllib.request.build_opener(cookies)

    def approve(self, where):
        page = self._open(where)
        for _ in range(6):
            action = re.search(r'<form[^>]*action="([^"]*)"', page[1])
            if action is None:
                return page[1]
            fields = dict(re.findall(r'<input[^>]*name="([^"]*)"[^>]*value="([^"]*)"', page[1]))
            fields |= dict.fromkeys(re.findall(r'name="(login|password)"', page[1]), "ada")
            fields |= dict(re.findall(r'<button[^>]*name="(confirm)"[^>]*value="(yes)"', page[1]))
            page = self._open(urllib.parse.urljoin(page[0], action[1]), fields)
        raise AssertionError(f"does not end: {page[1][:400]}")

    def _open(self, url, fields=None):
        data = urllib.parse.urlencode(fields).encode() if fields is not None else None
        with self._opener.open(url, data, timeout=20) as answer:
            return answer.url, answer.read().decode()


async def test_a_person_signs_in_with_a_browser_at_another_implementation(world, issuer):
    settings = OidcSettings(issuer=issuer, audience="headrace")
    world.gateway.authenticator.provider = Oidc(settings)
    world.gateway.follower._clock.set(int(time.time() * 1e6))
    page = await world.call(Browser().approve, f"{world.url}/v1/login/browser")
    assert json.loads(page)["user"] == "ada@example.com"


async def test_a_person_signs_in_by_the_device_flow_of_another_implementation(
    world, issuer, monkeypatch, capsys
):
    settings = OidcSettings(issuer=issuer, audience="headrace")
    world.gateway.authenticator.provider = Oidc(settings)
    world.gateway.follower._clock.set(int(time.time() * 1e6))
    members = (Listed(member="group:vision-team", role="researcher"),)
    position = await world.append(*tree(), configured("vision", "research", members=members))
    await world.gateway.follower.reached(position)
    monkeypatch.setattr(login, "SLOWER_S", 0)
    entrance = await world.call(Client(world.url).entrance)

    def sign_in():
        browser, waited = Browser(), []

        def pause(_):
            if not waited:
                where = re.search(r"open (\S+)", capsys.readouterr().out)[1]
                waited.append(browser.approve(where))

        monkeypatch.setattr(login.time, "sleep", pause)
        return login._signed_in(entrance)

    token = await asyncio.wait_for(asyncio.to_thread(sign_in), START_S_MAX)
    me = await world.call(Client(world.url, token).whoami)
    assert me.user == "ada@example.com"
    assert [(role.role, role.scope) for role in me.roles] == [("researcher", "vision")]

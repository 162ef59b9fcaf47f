"""Whose word the gateway takes for where a request comes from."""

from __future__ import annotations

import asyncio
import contextlib
import http.client

import pytest

from headrace.gateway.server import Server, listen, trusted_proxies

SAID = {"X-Forwarded-For": "203.0.113.7", "X-Forwarded-Proto": "https"}


async def heard(*proxies):
    """The address and scheme of a request from this machine that says it was passed on."""
    found = []

    async def application(scope, _receive, send):
        found.append((scope["client"][0], scope["scheme"]))
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    def ask():
        with contextlib.closing(http.client.HTTPConnection(*listening.getsockname())) as door:
            door.request("GET", "/", headers=SAID)
            door.getresponse().read()

    listening = listen("127.0.0.1:0")
    server = Server(application, listening, proxies=proxies)
    serving = asyncio.create_task(server.run_until_stopped())
    await server.up.wait()
    await asyncio.to_thread(ask)
    server.stop()
    await serving
    return found[0]


async def test_nobody_says_where_another_comes_from_unless_it_is_named(monkeypatch):
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")
    assert await heard() == ("127.0.0.1", "http")
    assert await heard(*trusted_proxies("192.0.2.0/24, 2001:db8::1")) == ("127.0.0.1", "http")


@pytest.mark.parametrize("named", ["127.0.0.1", " 127.0.0.0/8,192.0.2.1"])
async def test_a_proxy_that_is_named_does(named):
    assert await heard(*trusted_proxies(named)) == ("203.0.113.7", "https")


@pytest.mark.parametrize("wrong", ["*", "proxy.example.com", "127.0.0.1/8"])
def test_what_is_no_address_names_no_proxy(wrong):
    with pytest.raises(ValueError, match=r"does not appear|has host bits"):
        trusted_proxies(wrong)

"""What may be sent before anybody knows who sends it."""

import asyncio
import json
import socket
from urllib.parse import urlsplit

import pytest
from tests.gateway.world import TIMEOUT_S, TOKEN, later

from headrace.gateway import incoming


async def connect(world, sent=b""):
    """A connection on which so much is sent before anybody accepts it, however slow this is."""
    return await asyncio.open_connection(sock=sender(world, sent))


def sender(world, sent):
    at = urlsplit(world.url)
    made = socket.create_connection((at.hostname, at.port))
    made.sendall(sent)
    return made


async def end_of(reading):
    async with asyncio.timeout(TIMEOUT_S):
        return await reading.read()


async def test_a_head_without_an_end_is_refused_and_not_kept(world):
    reading, writing = await connect(world)
    begun = b"GET /v1/jobs HTTP/1.1\r\nX: "
    writing.write(begun + b"a" * (incoming.HEAD_BYTES_MAX + 1 - len(begun)))
    said = await end_of(reading)
    assert said.startswith(b"HTTP/1.1 431 ")
    assert b"the head of a request is too long" in said
    writing.close()


@pytest.mark.parametrize(
    "sent",
    [
        b"hello?\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nno colon\r\n\r\n",
        b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nno length\r\n",
    ],
)
async def test_what_is_no_request_is_answered_as_every_other_error(world, sent):
    reading, writing = await connect(world)
    writing.write(sent)
    head, _, body = (await end_of(reading)).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n")
    message = "refused: request \u2014 is not HTTP/1.1"
    assert json.loads(body) == {"accepted": False, "message": message}
    writing.close()


@pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"GET /v1/jobs HTTP/1.1\r\nHost: x\r\n",
        b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\nGET /livez HTT",
    ],
)
async def test_who_never_ends_a_head_is_let_go(world, monkeypatch, begun):
    monkeypatch.setattr(incoming, "HEAD_S_MAX", 0.05)
    reading, writing = await connect(world, begun)
    assert b"HTTP/1.1 408 " in await end_of(reading)
    writing.close()


async def test_who_never_ends_a_body_is_let_go(world, monkeypatch):
    monkeypatch.setattr(incoming, "SILENCE_S_MAX", 0.05)
    head = f"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
    reading, writing = await connect(world, f"{head}Content-Length: 100\r\n\r\n{{".encode())
    await end_of(reading)  # it ends, whatever is said
    writing.close()


async def test_who_comes_slowly_and_does_end_is_answered(world, monkeypatch):
    reading, writing = await connect(world, b"GET /livez HT")
    await asyncio.sleep(0.05)
    writing.write(b"TP/1.1\r\nHost: x\r\n\r\n")
    async with asyncio.timeout(TIMEOUT_S):
        await reading.readuntil(b"HTTP/1.1 200")
    later(monkeypatch, incoming.HEAD_S_MAX)  # than a head may take: none is under way
    await asyncio.sleep(0.05)
    writing.write(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert (await end_of(reading)).count(b"HTTP/1.1 200") == 1
    writing.close()


async def test_what_is_answered_slowly_is_not_what_comes_slowly(world, monkeypatch):
    monkeypatch.setattr(incoming, "HEAD_S_MAX", 0.05)
    monkeypatch.setattr(incoming, "SILENCE_S_MAX", 0.05)

    async def owner(message):
        await asyncio.sleep(0.2)
        await world.bus.publish(message.reply, b'{"accepted": true, "position": 0, "job": "t-1"}')

    await world.bus.subscribe("headrace.gateway.*.job.submit", owner)
    head = f"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
    rest = 'Connection: close\r\nContent-Length: 13\r\n\r\n{"name": "t"}'
    reading, writing = await connect(world, f"{head}{rest}".encode())
    assert (await end_of(reading)).startswith(b"HTTP/1.1 201 ")
    writing.close()


@pytest.mark.security
async def test_a_body_that_never_is_silent_and_never_comes_is_let_go(world, monkeypatch):
    monkeypatch.setattr(incoming, "BODY_BYTES_PER_S_MIN", 10**6)
    monkeypatch.setattr(incoming, "SILENCE_S_MAX", 0.3)
    head = f"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
    reading, writing = await connect(world, f"{head}Content-Length: 100000\r\n\r\n".encode())
    ended = asyncio.create_task(end_of(reading))
    for _ in range(100_000):
        if ended.done():
            break
        writing.write(b" ")
        await asyncio.sleep(0.01)
    assert b"HTTP/1.1 408 " in ended.result()
    writing.close()

"""A submission is the same whichever way it comes in."""

import http.client
import socket
from urllib.parse import urlsplit

import pytest
from tests.gateway.world import TOKEN

BODY = b'{"name": "t", "project": "vision", "command": ["true"]}'
CHUNKED = {"Transfer-Encoding": "chunked"}  # not of a length that is known
HEADERS = {"Authorization": f"Bearer {TOKEN}", "Idempotency-Key": "k1", "traceparent": "00-nothing"}


def posted(world, path, body, headers):
    connection = http.client.HTTPConnection(urlsplit(world.url).netloc, timeout=60)
    chunked = "Transfer-Encoding" in headers
    connection.request(
        "POST", path, iter([body]) if chunked else body, headers, encode_chunked=chunked
    )
    response = connection.getresponse()
    answer = response.status, dict(response.getheaders()), response.read()
    connection.close()
    return answer


async def admission(world, reply):
    await world.answer("job.submit", lambda _: reply)


@pytest.mark.parametrize(
    ("body", "headers", "reply", "status"),
    [
        (BODY, HEADERS, {"accepted": True, "position": 0, "job": "t-1"}, 201),
        (BODY, HEADERS, {"accepted": False, "refusal": {"field": "name", "rule": "no"}}, 422),
        (BODY, HEADERS, {"accepted": False, "refusal": {"field": "idempotency key k1"}}, 409),
        (b'{"name": ', HEADERS, {}, 400),
        (b'{"project": "\xff"}', HEADERS, {}, 400),
        (b'{"project": "No Name"}', HEADERS, {}, 400),
        (BODY, {**HEADERS, "Idempotency-Key": "k" * 201}, {}, 400),
        (BODY, {**HEADERS, "Headrace-After-Position": "x"}, {}, 400),
        (BODY, {}, {}, 401),
        (BODY, {"Authorization": "Bearer nobody's"}, {}, 401),
        (BODY, {**HEADERS, "headrace-on-behalf-of": "ada"}, {}, 403),
    ],
)
async def test_with_and_without_the_framework_the_answer_is_the_same(
    world, body, headers, reply, status
):
    await admission(world, reply)
    plain = await world.call(posted, world, "/v1/jobs", body, headers)
    through = await world.call(posted, world, "/v1/jobs", body, {**headers, **CHUNKED})
    assert plain == through
    assert plain[0] == status
    asked = [(m.subject, m.data, dict(m.headers)) for m in world.asked]
    for _, _, sent in asked:
        sent.pop("traceparent")  # each begins a trace of its own
    assert asked[::2] == asked[1::2]


async def test_a_moment_of_the_past_is_refused_by_the_framework(world):
    status, _, said = await world.call(posted, world, "/v1/jobs?at=3", BODY, HEADERS)
    assert (status, b"not yet supported" in said) == (400, True)


async def test_what_nobody_expected_is_one_line(world, monkeypatch):
    monkeypatch.delattr(world.gateway, "asker")
    plain = await world.call(posted, world, "/v1/jobs", BODY, HEADERS)
    assert (plain[0], b"the gateway failed on this request" in plain[2]) == (500, True)


async def test_a_body_that_its_sender_did_not_end_is_no_submission(world):
    await admission(world, {"accepted": True, "position": 0, "job": "t-1"})

    def half():
        at = urlsplit(world.url)
        with socket.create_connection((at.hostname, at.port), timeout=60) as sender:
            head = f"POST /v1/jobs HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {TOKEN}\r\n"
            length = f"Content-Length: {len(BODY) + 1}\r\n\r\n"  # one blank, which never comes
            sender.sendall((head + length).encode() + BODY)

    await world.call(half)
    status, _, _ = await world.call(posted, world, "/v1/jobs", BODY, HEADERS)
    assert status == 201
    assert [m.headers["ce-id"] for m in world.asked] == ["k1"]

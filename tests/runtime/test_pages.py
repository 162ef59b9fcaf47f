"""What a service tells its supervisor and Prometheus."""

from __future__ import annotations

import asyncio
import json

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.runtime.rig import Rig, until

from headrace.runtime.health import (
    REQUEST_BYTES_MAX,
    Health,
    MetricsToken,
    counters_text,
    json_answer,
)
from headrace.runtime.serve import pages


@pytest.fixture
async def port(tmp_path):
    health = Health(
        {
            "/livez": lambda: json_answer(200, {"service": "s"}),
            "/readyz": lambda: json_answer(503, {"ready": False}),
            "/metrics": lambda: (200, "text/plain", b'headrace_x{project="vision"} 1\n'),
        },
        MetricsToken(b"the-token\n"),
    )
    file = tmp_path / "s.port"
    await health.start("127.0.0.1:0", file)
    yield int(file.read_text())
    await health.stop()


async def say(port, data):
    """The status and body that come back for these bytes; None when nothing does."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        async with asyncio.timeout(60):
            answer = await reader.read()
    except ConnectionError:
        return None
    finally:
        writer.close()
    if not answer:
        return None
    head, _, body = answer.partition(b"\r\n\r\n")
    assert int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0]) == len(body)
    return int(head.split(b" ")[1]), body


async def get(port, path):
    return await say(port, f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())


async def test_each_page_has_its_status_and_body(port):
    status, body = await get(port, "/livez")
    assert (status, json.loads(body)) == (200, {"service": "s"})
    status, body = await get(port, "/readyz")
    assert (status, json.loads(body)) == (503, {"ready": False})
    assert (await get(port, "/etc/passwd"))[0] == 404


@pytest.mark.parametrize("shown", ["", "Bearer", "Bearer ", "Bearer wrong", "Basic the-token",
                                   "Bearer the-token2", "the-token", "Bearer \xff"])  # fmt: skip
async def test_numbers_are_shown_for_the_token_of_the_metrics_alone(port, shown):
    async def numbers(authorization):
        head = f"GET /metrics HTTP/1.1\r\nauthorization: {authorization}\r\n\r\n"
        return await say(port, head.encode("latin-1"))

    status, body = await numbers(shown)
    assert (status, b"vision" in body) == (401, False)
    assert (await get(port, "/metrics"))[0] == 401
    status, body = await numbers("bearer the-token")
    assert (status, b"vision" in body) == (200, True)


@pytest.mark.parametrize("token", [b"", b"\n"])
def test_without_a_token_nobody_has_it(token):
    assert not any(MetricsToken(token).is_shown(shown) for shown in ("", "Bearer ", "Bearer x"))


@pytest.mark.parametrize(
    "garbage",
    [
        b"\r\n\r\n",
        b"\xff\xff\r\n\r\n",
        b"GET\r\n\r\n",
        b"x" * (2 * REQUEST_BYTES_MAX) + b"\r\n\r\n",
    ],
)
async def test_garbage_harms_nobody(port, garbage, caplog):
    answer = await say(port, garbage)
    assert answer is None or answer[0] == 404
    assert (await get(port, "/livez"))[0] == 200
    assert caplog.records == []


async def test_somebody_who_says_nothing_keeps_nobody_waiting(port):
    _, silent = await asyncio.open_connection("127.0.0.1", port)
    assert (await get(port, "/livez"))[0] == 200
    silent.close()


def test_counters_are_read_as_prometheus_reads_them():
    text = counters_text("quota", {"requests": 3, "appends": 2}, 17)
    found = {
        sample.name: (sample.labels, sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert found == {
        "headrace_log_position": ({"service": "quota"}, 17),
        "headrace_requests_total": ({"service": "quota"}, 3),
        "headrace_appends_total": ({"service": "quota"}, 2),
    }


async def test_the_fleets_numbers_are_shown_by_the_leader_alone():
    rig = Rig()
    leader = await rig.leading()
    follower = await rig.start("b")

    def page(host):
        return pages(host)["/metrics"]()[2].decode()

    assert "headrace_fleet 1" in page(leader)
    assert "headrace_fleet" not in page(follower)
    assert "headrace_log_position" in page(follower)
    await rig.kill("a")
    await until(lambda: follower.leading)
    assert "headrace_fleet 1" in page(follower)
    await rig.end(follower, "b")

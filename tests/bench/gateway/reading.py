"""Lists and descriptions, one after the other over one connection."""

from __future__ import annotations

import http.client
import time
from urllib.parse import urlsplit

from tests.bench.agent import cpu_s
from tests.bench.gateway.history import FINISHED, node_name
from tests.bench.gateway.populated import pids_of
from tests.bench.printing import row

from headrace.testing.running import RunningPlatform

TIMES = 100
LISTS = (
    ("ps", "/v1/jobs?ended=10"),
    ("ps --all", "/v1/jobs?ended=1000"),
    ("ps --state waiting", "/v1/jobs?state=waiting"),
    ("one project's page", "/v1/jobs?project=ads&ended=1000&limit=50"),
    ("node list", "/v1/nodes"),
    ("projects", "/v1/projects"),
    ("status", "/v1/status"),
)


def measure(platform: RunningPlatform) -> None:
    """Each of them `TIMES` times."""
    at = _At(platform)
    for name, path in LISTS:
        _row(at, f"list: {name}", [path] * TIMES)
    names = [f"/v1/jobs/old-{number:05d}" for number in range(0, FINISHED, FINISHED // TIMES)]
    _row(at, "describe: a job that ended", names)
    _row(at, "describe: by a prefix", ["/v1/jobs/live-0007"] * TIMES)
    _row(at, "describe: a node", [f"/v1/nodes/{node_name(77)}"] * TIMES)
    at.connection.close()


class _At:
    """One connection to the gateway, and its process."""

    def __init__(self, platform: RunningPlatform) -> None:
        self.connection = http.client.HTTPConnection(urlsplit(platform.url).netloc)
        self.headers = {"Authorization": f"Bearer {platform.token}"}
        self.pid = pids_of(platform)["gateway"]


def _row(at: _At, name: str, paths: list[str]) -> None:
    taken_ms, length = [], 0
    before_s = cpu_s(at.pid)
    for path in paths:
        began = time.perf_counter()
        at.connection.request("GET", path, headers=at.headers)
        answer = at.connection.getresponse()
        length = len(answer.read())
        taken_ms.append((time.perf_counter() - began) * 1000)
        if answer.status != http.client.OK:
            raise SystemExit(f"{path}: HTTP {answer.status}")
    each_ms = (cpu_s(at.pid) - before_s) / len(paths) * 1000
    p95 = sorted(taken_ms)[int(len(taken_ms) * 0.95) - 1]
    figure = f"{p95:.1f} ms"
    row(f"{name}, p95", figure, f"≤ 50 ms   ({each_ms:.1f} ms of a core, {length / 1000:.0f} kB)")

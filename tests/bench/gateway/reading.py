"""Lists and descriptions, one after the other over one connection."""

from __future__ import annotations

import http.client
import time

from tests.bench.agent import cpu_s
from tests.bench.gateway.history import FINISHED
from tests.bench.gateway.standing import TOKEN, Served
from tests.bench.printing import row

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


def measure(served: Served) -> None:
    """Each of them `TIMES` times."""
    connection = http.client.HTTPConnection("127.0.0.1", served.port)
    for name, path in LISTS:
        _row(connection, served.pid, f"list: {name}", [path] * TIMES)
    names = [f"/v1/jobs/old-{number:05d}" for number in range(0, FINISHED, FINISHED // TIMES)]
    _row(connection, served.pid, "describe: a job that ended", names)
    _row(connection, served.pid, "describe: by a prefix", ["/v1/jobs/live-0007"] * TIMES)
    _row(connection, served.pid, "describe: a node", ["/v1/nodes/n77"] * TIMES)
    connection.close()


def _row(connection: http.client.HTTPConnection, pid: int, name: str, paths: list[str]) -> None:
    taken_ms, length = [], 0
    before_s = cpu_s(pid)
    for path in paths:
        began = time.perf_counter()
        connection.request("GET", path, headers={"Authorization": f"Bearer {TOKEN}"})
        answer = connection.getresponse()
        length = len(answer.read())
        taken_ms.append((time.perf_counter() - began) * 1000)
        if answer.status != http.client.OK:
            raise SystemExit(f"{path}: HTTP {answer.status}")
    each_ms = (cpu_s(pid) - before_s) / len(paths) * 1000
    p95 = sorted(taken_ms)[int(len(taken_ms) * 0.95) - 1]
    figure = f"{p95:.1f} ms"
    row(f"{name}, p95", figure, f"≤ 50 ms   ({each_ms:.1f} ms of a core, {length / 1000:.0f} kB)")

"""What of a platform runs, is ready, and weighs, read from its records and from /proc."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from headrace.embedded import platform, processes, secrets, settings
from headrace.embedded.durability import lack_of_room
from headrace.embedded.layout import Layout
from headrace.embedded.nats import Nats
from headrace.embedded.postgres import Postgres
from headrace.embedded.services import SERVICES, metrics_url
from headrace.embedded.settings import Settings, reachable_host
from headrace.embedded.units import LOOPBACK, Record, read_record, readiness, run_dir

SERVICES_MAX = 128  # asked at the same time


class Row(msgspec.Struct, kw_only=True):
    """One process of the platform. `state` is `ready`, `not ready` or `down`.

    `memory_bytes` is the proportional set size of the process and what it needs (a server's
    children; a node's launcher and shims, not the jobs), None where the kernel does not tell;
    `position` how far a service has folded the log; `isolation` how a node isolates jobs.
    """

    name: str
    pid: int | None = None
    state: str = "down"
    uptime_s: float | None = None
    restarts: int = 0
    memory_bytes: int | None = None
    position: int | None = None
    leading: bool | None = None
    isolation: str = ""


class Report(msgspec.Struct, kw_only=True):
    """The platform as a whole. `bus` is where publishers connect; empty while it never was up, and when
    it is not ours. `metrics` is where the fleet's numbers are. `phase`: `starting`, `ready`,
    `stopping`, `unsupervised`, `down`.
    """

    data_dir: str
    url: str
    bus: str
    metrics: str
    phase: str
    ready: bool
    memory_bytes: int
    processes: list[Row]
    notices: list[str] = []  # about nodes that do not follow the log, and a full disk


def report(layout: Layout) -> Report:
    """How the platform is now. Raises `EmbeddedError` when none was ever started here."""
    wanted = settings.read(layout)
    said = platform.state(layout)
    children = _children()
    rows = [_supervisor_row(said)]
    with ThreadPoolExecutor(SERVICES_MAX) as threads:
        rows += threads.map(lambda name: _row(layout, name, children), _names(wanted))
    return Report(
        data_dir=str(layout.data_dir),
        url=said.url if said else "",
        metrics=metrics_of(layout),
        bus=bus_url(layout, wanted),
        phase=said.phase if said else _unsupervised(rows),
        ready=all(row.state == "ready" for row in rows),
        memory_bytes=sum(row.memory_bytes or 0 for row in rows),
        processes=rows,
        notices=list(_notices(layout)),
    )


def _notices(layout: Layout) -> Iterator[str]:
    for name, said in _readiness(layout, "placement").get("apart", {}).items():
        yield f"node {name} {said}"
    if lack := lack_of_room(layout.data_dir):
        yield f"{lack}: nothing is taken before there is room"


def metrics_of(layout: Layout) -> str:
    """Where the fleet's numbers are; empty while nobody shows them."""
    with contextlib.suppress(OSError, ValueError):
        port = int((run_dir(layout, "metrics") / "metrics.port").read_text(encoding="ascii"))
        return metrics_url(f"{LOOPBACK}:{port}")
    return ""


def bus_url(layout: Layout, wanted: Settings) -> str:
    """Where the embedded bus is reached from this machine; empty when there is none."""
    port = Nats(layout.nats).known_port
    if wanted.external_nats or not port:
        return ""
    host = reachable_host(wanted.listen) if wanted.tls else LOOPBACK
    return f"{'tls' if wanted.tls else 'nats'}://{f'[{host}]' if ':' in host else host}:{port}"


def isolation_of(layout: Layout, wanted: Settings) -> str:
    """How the nodes that this machine plays isolate jobs; empty when it plays none."""
    found = (_readiness(layout, name).get("isolation", "") for name in wanted.node_names()[:1])
    return next(found, "")


def _unsupervised(rows: list[Row]) -> str:
    """Without a supervisor processes may go on; only `up` or `down` makes that good."""
    return "unsupervised" if any(row.pid for row in rows) else "down"


def _names(wanted: Settings) -> list[str]:
    servers = [] if wanted.external_postgres else ["postgres"]
    servers += [] if wanted.external_nats else ["nats"]
    return [*servers, *SERVICES, *wanted.node_names()]


def _supervisor_row(said: platform.State | None) -> Row:
    if said is None:
        return Row(name="supervisor")
    return Row(
        name="supervisor",
        pid=said.process.pid,
        state="ready" if said.phase == "ready" else "not ready",
        uptime_s=processes.age_s(said.process),
        memory_bytes=_memory_bytes(said.process.pid, {}),  # its children have rows of their own
    )


def _row(layout: Layout, name: str, children: dict[int, list[int]]) -> Row:
    record = read_record(layout, name) or Record(name=name)
    if record.process is None or not processes.alive(record.process):
        return Row(name=name, restarts=record.restarts)
    said = _readiness(layout, name)
    return Row(
        name=name,
        pid=record.process.pid,
        state="ready" if said.get("status") == 200 else "not ready",
        uptime_s=processes.age_s(record.process),
        restarts=record.restarts,
        memory_bytes=_weight(layout, name, record.process.pid, children),
        position=said.get("position"),
        leading=said.get("leading"),
        isolation=said.get("isolation", ""),
    )


def _readiness(layout: Layout, name: str) -> dict[str, Any]:
    if name == "postgres":
        return {"status": 200 if Postgres(layout.postgres()).ready() else 503}
    if name == "nats":
        return {"status": 200 if Nats(layout.nats).ready() else 503}
    module = name if name in SERVICES else "node_agent"
    port_file = run_dir(layout, name) / f"{module}.port"
    if name != "gateway":
        return readiness(port_file, LOOPBACK)
    wanted = settings.read(layout)
    certificate, _ = secrets.certificate(layout, wanted)
    return readiness(port_file, reachable_host(wanted.listen), certificate)


def _children() -> dict[int, list[int]]:
    """The pids of every process's children."""
    found: dict[int, list[int]] = defaultdict(list)
    for pid in processes.all_pids():
        with contextlib.suppress(OSError):
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
            found[int(stat.rpartition(")")[2].split()[1])].append(pid)
    return found


def _weight(layout: Layout, name: str, pid: int, children: dict[int, list[int]]) -> int | None:
    """What the process and its own kind weigh. A node's launcher and shims name its folder last."""
    folder = layout.node(name)
    if not folder.is_dir():
        return _memory_bytes(pid, children)
    kin = [other for other in processes.all_pids() if processes.title(other).endswith(f" {folder}")]
    return _memory_bytes(pid, {pid: kin})


def _memory_bytes(pid: int, children: dict[int, list[int]]) -> int | None:
    total = _own_memory_bytes(pid)
    for child in children.get(pid, []):
        total = (total or 0) + (_memory_bytes(child, children) or 0)
    return total


def _own_memory_bytes(pid: int) -> int | None:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return None

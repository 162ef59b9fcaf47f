"""One supervised process: how it is started, seen to be ready and ended, and what is known of it.

Rule: what is known of it is in a file before anything else relies on it, so that whoever comes
after a killed supervisor finds every process again.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import msgspec

from headrace import trust
from headrace.embedded import processes
from headrace.embedded.files import read_json, write_file
from headrace.embedded.layout import Layout
from headrace.embedded.processes import Process

LOOPBACK = "127.0.0.1"
SERVICE_STOP_S_MAX = 15.0  # a turn, a snapshot and closing
PAGE_S_MAX = 2.0
PAGE_BYTES_MAX = 65_536


class Record(msgspec.Struct):
    """What is known of a unit. `restarts` counts since the supervisor's start."""

    name: str
    process: Process | None = None
    restarts: int = 0


class Server(Protocol):
    """Postgres or NATS."""

    def start(self) -> Process: ...
    def stop(self) -> None: ...
    def ready(self) -> bool: ...
    def running(self) -> Process | None: ...


@dataclass(frozen=True)
class Unit:
    """What the supervisor keeps alive. All three block; `start` adopts what runs already."""

    name: str
    start: Callable[[], Process]
    ready: Callable[[], bool]
    stop: Callable[[], object]


def server_unit(name: str, server: Server) -> Unit:
    """The unit of a server that knows its own process."""
    return Unit(name, server.start, server.ready, server.stop)


def service_unit(
    layout: Layout,
    name: str,
    module: str,
    env: Callable[[], Mapping[str, str]],
    *,
    host: str = LOOPBACK,
    certificate: str = "",
    umask: int = 0o077,
) -> Unit:
    """The unit of `python -m headrace.<module>`, whose port file is `run/<name>/<module>.port`.

    `env` is asked at every start. It answers over TLS when it has a `certificate` (a file).
    """
    port_file = run_dir(layout, name) / f"{module}.port"

    def start() -> Process:
        port_file.unlink(missing_ok=True)
        return processes.spawn(
            python_command(f"headrace.{module}"), env=env(), log=layout.log(name), umask=umask
        )

    return Unit(
        name,
        start,
        lambda: readiness(port_file, host, certificate).get("status") == 200,
        lambda: stop_recorded(layout, name),
    )


def python_command(module: str, *arguments: str) -> Sequence[str]:
    """A module run by the interpreter that runs us."""
    return [sys.executable, "-m", module, *arguments]


def stop_recorded(layout: Layout, name: str) -> bool:
    """End the process that a unit's record names; whether it still ran."""
    record = read_record(layout, name)
    if not record or not record.process:
        return False
    did_run = processes.alive(record.process)
    processes.end(record.process, (signal.SIGTERM, SERVICE_STOP_S_MAX))
    return did_run


def readiness(port_file: Path, host: str = LOOPBACK, certificate: str = "") -> dict[str, Any]:
    """What `/readyz` says: its fields and `status`; empty when nobody answers."""
    with contextlib.suppress(OSError, ValueError, IndexError, msgspec.DecodeError):
        port = int(port_file.read_text(encoding="ascii"))
        head, _, body = _get((host, port), "/readyz", certificate).partition(b"\r\n\r\n")
        fields = msgspec.json.decode(body)
        status = int(head.split(b" ", 2)[1])
        return {**(fields if isinstance(fields, dict) else {}), "status": status}
    return {}


def run_dir(layout: Layout, name: str) -> Path:
    """Where the unit writes its port file."""
    return layout.run / name


def read_record(layout: Layout, name: str) -> Record | None:
    """What is known of the unit."""
    return read_json(layout.run / f"{name}.json", Record)


def write_record(layout: Layout, record: Record) -> None:
    """Keep it."""
    write_file(layout.run / f"{record.name}.json", msgspec.json.encode(record))


def recorded(layout: Layout) -> list[Record]:
    """Every unit that was ever started here, by name."""
    names = sorted(path.stem for path in layout.run.glob("*.json"))
    return [record for name in names if (record := read_record(layout, name))]


def _get(address: tuple[str, int], path: str, certificate: str) -> bytes:
    """One page by HTTP/1.0, without the weight of an HTTP client."""
    answer = b""
    with _connected(address, certificate) as connection:
        connection.sendall(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
        while len(answer) < PAGE_BYTES_MAX and (part := connection.recv(PAGE_BYTES_MAX)):
            answer += part
    return answer


def _connected(address: tuple[str, int], certificate: str) -> socket.socket:
    plain = socket.create_connection(address, timeout=PAGE_S_MAX)
    if not certificate:
        return plain
    pem = Path(certificate).read_text(encoding="ascii")
    return trust.context_of(pem).wrap_socket(plain)

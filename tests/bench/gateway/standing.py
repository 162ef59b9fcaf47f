"""One gateway process over a Postgres and a NATS of its own, without any other service."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.error import URLError
from urllib.request import urlopen

from headrace import vault
from headrace.embedded import processes
from headrace.embedded.accounts import plain_account, private_folder
from headrace.embedded.nats import Nats
from headrace.embedded.postgres import Postgres

TOKEN = "a-token-of-the-benchmark"
READY_S_MAX = 120.0
QUIT_S_MAX = 10.0


class Servers(NamedTuple):
    """Where the log and the bus are."""

    dsn: str
    nats_url: str


@contextlib.contextmanager
def servers(folder: Path) -> Iterator[Servers]:
    """A Postgres (fsync on) and a NATS, which end with the block."""
    folder.chmod(0o711)
    postgres = Postgres(private_folder(folder / "pg", plain_account()))
    running = postgres.start()
    nats = Nats(folder / "nats")
    nats.start()
    try:
        yield Servers(postgres.dsn(), nats.url)
    finally:
        nats.stop()
        processes.end(running, (signal.SIGQUIT, QUIT_S_MAX))


class Served(NamedTuple):
    """A gateway that has read the log. `start_s` is what that took."""

    port: int
    pid: int
    start_s: float


@contextlib.contextmanager
def gateway(folder: Path, at: Servers) -> Iterator[Served]:
    """A gateway process, up and at the head of the log."""
    run = folder / "gateway"
    run.mkdir()
    (run / "token").write_text(TOKEN)
    (run / "vault.pub").write_bytes(vault.new_box_keys()[1])
    (run / "grant.pub").write_bytes(vault.new_signing_keys()[1])
    env = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(sys.path),
        "HEADRACE_PG_DSN": at.dsn,
        "HEADRACE_NATS_URL": at.nats_url,
        "HEADRACE_RUN_DIR": str(run),
        "HEADRACE_KEYS_DIR": str(run),
        "HEADRACE_TOKEN_FILE": str(run / "token"),
        "HEADRACE_FILES_DIR": str(run / "files"),
    }
    began = time.monotonic()
    process = subprocess.Popen((sys.executable, "-m", "headrace.gateway"), env=env)
    try:
        port = _ready(run / "gateway.port", process, began + READY_S_MAX)
        yield Served(port, process.pid, time.monotonic() - began)
    finally:
        process.terminate()
        process.wait()


def _ready(port_file: Path, process: subprocess.Popen[bytes], deadline_s: float) -> int:
    while time.monotonic() < deadline_s and process.poll() is None:
        with contextlib.suppress(OSError, URLError, ValueError):
            port = int(port_file.read_text())
            with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5):
                return port
        time.sleep(0.05)
    raise SystemExit("the gateway did not get ready")

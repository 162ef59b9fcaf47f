"""One NATS server over one folder, started, adopted, watched and stopped by us.

Rule: what JetStream acknowledges is on disk (`sync_interval: always`), and the port that the server
chose at its first start is kept, so that clients find it again after every restart.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import socket
import time
from pathlib import Path

import msgspec

from headrace.embedded import EmbeddedError, binaries, processes
from headrace.embedded.accounts import private_folder
from headrace.embedded.files import read_json, write_file
from headrace.embedded.processes import Process

READY_S_MAX = 60.0  # a large JetStream store is read at the start
STOP_S_MAX = 15.0
PAYLOAD_BYTES_MAX = 1_048_576
STORE_BYTES_MAX = 8 * 1024**3  # the bus is a cache: the log is in Postgres
LOG_BYTES_MAX = 8 * 1024**2  # one log file; the server rotates
LOG_FILES_MAX = 3

CONFIG = """\
# Written by headrace at every start.
server_name: headrace
listen: "{host}:{port}"
ports_file_dir: "{base}"
log_file: "{log}"
logfile_size_limit: {log_bytes}
logfile_max_num: {log_files}
max_payload: {payload}
jetstream {{
  store_dir: "{base}/store"
  max_memory_store: 64MB
  max_file_store: {store_bytes}
  sync_interval: always
}}
{authentication}
"""


class _State(msgspec.Struct):
    """What is remembered between starts. `process` is the last one started."""

    port: int = -1
    process: Process | None = None


class Nats:
    """The server over `base`. `authentication` is the part of its config that says who may connect.

    Without it, everybody who reaches the port may.
    """

    def __init__(
        self,
        base: Path,
        *,
        authentication: str = "",
        log: Path | None = None,
        host: str = "127.0.0.1",
    ) -> None:
        self.base = base
        self.host = host
        self.log = log or base / "nats.log"
        self.authentication = authentication
        self._lock = -1

    @property
    def url(self) -> str:
        """Where clients connect. Raises `EmbeddedError` before the first start."""
        port = self._state().port
        if port <= 0:
            raise EmbeddedError("NATS has not been started yet")
        return f"nats://{self.host}:{port}"

    def start(self) -> Process:
        """Start it or adopt the one that runs, and wait until it is ready. Raises `EmbeddedError`.

        The port stays the same, unless somebody else has taken it meanwhile.
        """
        private_folder(self.base)
        private_folder(self.base / "store")
        self._take_lock()
        running = self.running()
        if running is not None:
            self._wait_ready(running)
            return running
        port = self._state().port
        return self._launch(port if port > 0 and _is_free(self.host, port) else -1)

    def running(self) -> Process | None:
        """The server of this folder, if it runs."""
        process = self._state().process
        return process if process and processes.alive(process) else None

    def ready(self) -> bool:
        """Whether it takes connections: it greets with INFO."""
        state = self._state()
        return state.port > 0 and _greets(self.host, state.port)

    def stop(self) -> None:
        """Stop it cleanly, after the deadline hard."""
        process = self.running()
        if process is not None:
            processes.end(process, (signal.SIGTERM, STOP_S_MAX))
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def wipe(self) -> None:
        """Drop every stream. Only while it is stopped."""
        assert self.running() is None, "a running server's store is never removed"
        shutil.rmtree(self.base / "store", ignore_errors=True)

    def _launch(self, port: int) -> Process:
        for old in self.base.glob("*.ports"):
            old.unlink(missing_ok=True)
        config = self.base / "server.conf"
        write_file(config, self._config(port).encode())
        process = processes.spawn(
            [str(binaries.nats_server()), "-c", str(config)], log=self._early_log()
        )
        self._save(_State(port=port, process=process))
        self._wait_ready(process)
        return process

    def _config(self, port: int) -> str:
        return CONFIG.format(
            host=self.host,
            port=port,
            base=self.base,
            log=self.log,
            log_bytes=LOG_BYTES_MAX,
            log_files=LOG_FILES_MAX,
            payload=PAYLOAD_BYTES_MAX,
            store_bytes=STORE_BYTES_MAX,
            authentication=self.authentication,
        )

    def _wait_ready(self, process: Process) -> None:
        deadline = time.monotonic() + READY_S_MAX
        while True:
            port = self._state().port
            if port <= 0 and (port := _written_port(self.base)) > 0:
                self._save(_State(port=port, process=process))
            if port > 0 and _greets(self.host, port):
                return
            if not processes.alive(process):
                processes.reap(process)
                raise EmbeddedError(f"NATS did not start: {self._last_words()}")
            if time.monotonic() > deadline:
                raise EmbeddedError(f"NATS is not ready after {READY_S_MAX:.0f} s")
            time.sleep(processes.POLL_S)

    def _early_log(self) -> Path:
        """What it says before it has opened its log."""
        return self.log.with_suffix(".start.log")

    def _last_words(self) -> str:
        for file in (self._early_log(), self.log):
            with contextlib.suppress(OSError):
                lines = file.read_text(encoding="utf-8", errors="replace").strip().splitlines()
                if lines:
                    return f"{lines[-1]} (more in {file})"
        return "it said nothing"

    def _take_lock(self) -> None:
        if self._lock >= 0:
            return
        lock = os.open(self.base / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(lock)
            raise EmbeddedError(f"another process keeps the NATS in {self.base}") from error
        self._lock = lock

    def _state(self) -> _State:
        return read_json(self.base / "state.json", _State) or _State()

    def _save(self, state: _State) -> None:
        write_file(self.base / "state.json", msgspec.json.encode(state))


def _is_free(host: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server does
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def _greets(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=1.0) as probe:
            return probe.recv(5) == b"INFO "
    except OSError:
        return False


def _written_port(base: Path) -> int:
    """The port that the server chose and wrote down, 0 before that."""
    for file in base.glob("*.ports"):
        with contextlib.suppress(OSError, ValueError, KeyError, IndexError):
            urls = json.loads(file.read_text(encoding="utf-8"))["nats"]
            return int(urls[0].rpartition(":")[2])
    return 0

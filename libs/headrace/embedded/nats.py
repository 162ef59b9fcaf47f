"""One NATS server over one folder, started, adopted, watched and stopped by us.

Rule: the port of the first start is kept, so that clients find the server again after every
restart. A port that was chosen, or that people expect, is never replaced by another one. Streams reach the disk every second: each can be rebuilt from the log, or is asked again by
its publisher, so nothing accepted depends on it.
"""

from __future__ import annotations

import fcntl
import os
import random
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
TLS_S_MAX = 5  # for a handshake
# Below the ports that the kernel gives to outgoing connections: a client that tries again and again
# would sooner or later get our port as its own, connect to itself and keep the server out.
PORTS = range(10_240, 20_000)
PORT_TRIES_MAX = 50
PAYLOAD_BYTES_MAX = 1_048_576
STORE_BYTES_MAX = 32 * 1024**3  # as much as the account may have; the log itself is in Postgres

CONFIG = """\
# Written by headrace at every start.
server_name: headrace
listen: "{host}:{port}"
max_payload: {payload}
jetstream {{
  store_dir: "{base}/store"
  max_memory_store: {store_bytes}
  max_file_store: {store_bytes}
  sync_interval: 1s
}}
{tls}{authentication}
"""


class _State(msgspec.Struct):
    """What is remembered between starts. `process` is the last one started."""

    port: int = 0
    process: Process | None = None


class Nats:
    """The server over `base`. `authentication` is the part of its config that says who may connect.

    Without it, everybody who reaches the port may. It listens at `listen`, of which `host` is the
    address from here, and takes nothing but TLS when it has a `certificate` (a file). `port` is the
    one and only; 0: any, and later the same unless somebody else has taken it meanwhile.
    """

    def __init__(
        self,
        base: Path,
        *,
        authentication: str = "",
        log: Path | None = None,
        host: str = "127.0.0.1",
        listen: str = "",
        certificate: str = "",
        private_key: str = "",
        port: int = 0,
    ) -> None:
        self.base = base
        self._port = port
        self._listen = listen or host
        self._certificate, self._private_key = certificate, private_key
        self.host = host
        self.log = log or base / "nats.log"
        self.authentication = authentication
        self._lock = -1

    @property
    def known_port(self) -> int:
        """Where it was started last; 0 before the first start."""
        return self._state().port

    @property
    def url(self) -> str:
        """Where clients connect. Raises `EmbeddedError` before the first start."""
        port = self._state().port
        if port <= 0:
            raise EmbeddedError("NATS has not been started yet")
        scheme = "tls" if self._certificate else "nats"
        return f"{scheme}://{self.host}:{port}"

    def start(self) -> Process:
        """Start it or adopt the one that runs, and wait until it is ready. Raises `EmbeddedError`.

        The port stays the same; see `port`.
        """
        private_folder(self.base)
        private_folder(self.base / "store")
        self._take_lock()
        running = self.running()
        if running is not None and self._config_is_current() and self._port in (0, self.known_port):
            self._wait_ready(running)
            return running
        if running is not None:
            processes.end(running, (signal.SIGTERM, STOP_S_MAX))
        return self._launch(self._choose_port())

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
        write_file(self._config_file, self._config(port).encode())
        command = [str(binaries.nats_server()), "-c", str(self._config_file)]
        process = processes.spawn(command, log=self.log)
        self._save(_State(port=port, process=process))
        self._wait_ready(process)
        return process

    def _choose_port(self) -> int:
        if self._port:
            if _is_free(self._listen, self._port):
                return self._port
            raise EmbeddedError(
                f"refused: --bus-port = {self._port} — another program listens there on {self._listen}; "
                f"--bus-port PORT takes another (0: any that is free), "
                f"`ss -ltnp sport = :{self._port}` tells which program it is"
            )
        known = self.known_port
        candidates = [known] if known > 0 else []
        candidates += random.sample(PORTS, PORT_TRIES_MAX)
        for port in candidates:
            if _is_free(self._listen, port):
                return port
        raise EmbeddedError(f"NATS finds no free port from {PORTS[0]} to {PORTS[-1]}")

    @property
    def _config_file(self) -> Path:
        return self.base / "server.conf"

    def _config_is_current(self) -> bool:
        wanted = self._config(self._state().port).encode()
        return self._config_file.exists() and self._config_file.read_bytes() == wanted

    def _config(self, port: int) -> str:
        return CONFIG.format(
            host=self._listen,
            port=port,
            tls=self._tls(),
            base=self.base,
            payload=PAYLOAD_BYTES_MAX,
            store_bytes=STORE_BYTES_MAX,
            authentication=self.authentication,
        )

    def _tls(self) -> str:
        if not self._certificate:
            return ""
        files = f'cert_file: "{self._certificate}", key_file: "{self._private_key}"'
        return f"tls {{ {files}, timeout: {TLS_S_MAX} }}\n"

    def _wait_ready(self, process: Process) -> None:
        deadline = time.monotonic() + READY_S_MAX
        while not self.ready():
            if not processes.alive(process):
                processes.reap(process)
                raise EmbeddedError(f"NATS did not start: {self._last_words()}")
            if time.monotonic() > deadline:
                raise EmbeddedError(f"NATS is not ready after {READY_S_MAX:.0f} s")
            time.sleep(processes.POLL_S)

    def _last_words(self) -> str:
        try:
            lines = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        except OSError:
            lines = []
        return f"{lines[-1] if lines else 'it said nothing'} (more in {self.log})"

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
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server does
        try:
            probe.bind((host.strip("[]"), port))
        except OSError:
            return False
    return True


def _greets(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host.strip("[]"), port), timeout=1.0) as probe:
            return probe.recv(5) == b"INFO "
    except OSError:
        return False

"""Programs that somebody runs beside a worker: started by its shim, so that they end with it.

Rule: the agent writes `sessions/ID/request.json` and sends the shim SIGUSR1; the shim starts what it
finds there once and writes `pid`, later `exit`, beside it. A program has the worker's environment,
folder and mark, so whoever sweeps the attempt finds it too.
"""

import contextlib
import json
import os
from typing import Any

from headrace.node_agent.supervision import kernel, processes, terminals
from headrace.node_agent.supervision.confinement import Confinement
from headrace.node_agent.supervision.protocol import SESSIONS

REQUEST, PID, EXIT = "request.json", "pid", "exit"
REQUEST_BYTES_MAX = 262_144
ENVIRONMENT_BYTES_MAX = 4_194_304
RUNNING_MAX = 64  # in one attempt

Streams = tuple[int, int, int]  # standard input, output and error


class Sessions:
    """The session programs of one attempt, by pid."""

    def __init__(self, confinement: Confinement) -> None:
        self._confinement = confinement
        self._running: dict[int, str] = {}

    @property
    def are_running(self) -> bool:
        """Whether one of them has not ended."""
        return bool(self._running)

    def begin(self, worker: int) -> None:
        """Start what was asked for and is not started, as the process `worker` was."""
        for name in sorted(_names()):
            folder = f"{SESSIONS}/{name}"
            if os.path.exists(f"{folder}/{PID}"):
                continue
            try:
                self._start(folder, worker)
            except (OSError, ValueError) as error:
                _answer(folder, processes.NOT_EXECUTABLE, f"cannot start: {error}")
            except processes.CannotStart as error:
                _answer(folder, error.exit_code, str(error))

    def has_ended(self, pid: int, status: int) -> None:
        """One of the shim's children has ended; perhaps it was one of these."""
        folder = self._running.pop(pid, None)
        if folder is not None:
            _answer(folder, processes.exit_code_of(status), "")

    def _start(self, folder: str, worker: int) -> None:
        kernel.write(f"{folder}/{PID}", b"0")  # whatever happens now, it is not tried again
        if len(self._running) >= RUNNING_MAX:
            raise ValueError(f"{RUNNING_MAX} programs run beside this worker already")
        request = json.loads(kernel.read(f"{folder}/{REQUEST}", REQUEST_BYTES_MAX))
        environment = _environment(worker) | request["env"]
        size = request["terminal"]
        streams = self._terminal(folder, *size) if size else _pipes(folder)
        try:
            pid = processes.start(
                request["command"],
                environment,
                os.readlink(f"/proc/{worker}/cwd"),
                streams,
                self._confinement.enter,
                on_terminal=bool(size),
            )
        finally:
            for stream in set(streams):
                os.close(stream)
        self._running[pid] = folder
        kernel.write(f"{folder}/{PID}", str(kernel.number_of(pid)).encode())

    def _terminal(self, folder: str, rows: int, columns: int) -> Streams:
        """A new one, whose other end is the agent's: the program's three streams."""
        near, far = self._confinement.open_terminal()
        try:
            terminals.resize(near, rows, columns)
            terminals.hand(folder, (near, far))
        except OSError:
            os.close(far)
            raise
        finally:
            os.close(near)
        return far, far, far


def _pipes(folder: str) -> Streams:
    """What the agent made in the folder; nobody at their other ends is waited for."""
    modes = {"in": os.O_RDONLY, "out": os.O_WRONLY, "err": os.O_WRONLY}
    opened = [os.open(f"{folder}/{name}", mode | os.O_NONBLOCK) for name, mode in modes.items()]
    for stream in opened:
        os.set_blocking(stream, True)
    return opened[0], opened[1], opened[2]


def _names() -> list[str]:
    with contextlib.suppress(OSError):
        return os.listdir(SESSIONS)
    return []


def _environment(pid: int) -> dict[str, str]:
    """What the worker was started with."""
    found = {}
    for entry in kernel.read(f"/proc/{pid}/environ", ENVIRONMENT_BYTES_MAX).split(b"\0"):
        name, equals, value = entry.partition(b"=")
        if equals:
            found[os.fsdecode(name)] = os.fsdecode(value)
    return found


def _answer(folder: str, exit_code: int, message: str) -> None:
    """So that a reader sees all of it or nothing."""
    content: dict[str, Any] = {"exit_code": exit_code, "message": message}
    with contextlib.suppress(OSError):
        kernel.write(f"{folder}/{EXIT}.new", json.dumps(content).encode())
        os.rename(f"{folder}/{EXIT}.new", f"{folder}/{EXIT}")

"""Starts MPI's daemons on the other nodes of a gang, where others use ssh.

Rule: `mpirun` is collective. The job's command runs on every node; on rank 0's, `mpirun` (this file,
before the real one in PATH) runs the real one, on the others it does what that one asks for, until it
ends, and ends with the same exit code. The real one asks through `gang-rsh HOST COMMAND…`, which is
this file too. All of it is one TCP port of rank 0's node, and a key that only the gang has.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection
from functools import partial
from multiprocessing import AuthenticationError
from multiprocessing.connection import (
    Client,
    Connection,
    Listener,
    answer_challenge,
    deliver_challenge,
)
from typing import Any

AGENT = "gang-rsh"
INSIDE = "HEADRACE_LAUNCHED"  # set for what the real launcher starts: it is not collective again
MEET_S = 600.0  # how long nodes wait for each other's `mpirun`; setup may take as long
RETRY_S = 0.05
GRACE_S = 5.0  # between SIGTERM and SIGKILL of what is left at the end
MESSAGE_BYTES_MAX = 1_048_576
NOT_REACHED = 255  # as ssh has it
Message = dict[str, Any]

GONE = (OSError, EOFError, ValueError, AuthenticationError)


def main() -> int:
    """What this file does under the name it was called by; the exit code."""
    name, arguments = os.path.basename(sys.argv[0]), sys.argv[1:]
    if name == AGENT:
        return ask(arguments[0], " ".join(arguments[1:]))
    real = _real(name)
    if os.environ.get(INSIDE) or os.environ["HEADRACE_NUM_NODES"] == "1":
        os.execv(real, [real, *arguments])  # noqa: S606  (no shell is meant)
    os.environ[INSIDE] = "1"
    if os.environ["HEADRACE_NODE_RANK"] == "0":
        return Hub().run([real, *arguments])
    return serve()


def ask(host: str, command: str) -> int:
    """Have the command run on that node of the gang; its exit code."""
    with contextlib.suppress(*GONE):
        channel = _connect(0.0)
        _send(channel, {"run": host, "command": command})
        return int(_receive(channel)["exit"])
    return NOT_REACHED  # the launcher has ended, and its hub with it


def serve() -> int:
    """Run what rank 0's launcher asks for, until it ends; its exit code."""
    channel = _connect(MEET_S)
    _send(channel, {"member": _names()[int(os.environ["HEADRACE_NODE_RANK"])]})
    running: dict[int, subprocess.Popen[bytes]] = {}
    code = 1
    with contextlib.suppress(*GONE):
        while True:
            told = _receive(channel)
            if "end" in told:
                code = int(told["end"])
                break
            if "run" in told:
                process = running[told["id"]] = _start(told["run"])
                _then(process, partial(_answer, channel, told["id"]))
            elif told.get("stop") in running:
                _signal(running[told["stop"]], signal.SIGTERM)
    _end(running.values())
    return code


def _answer(channel: Connection, number: int, code: int) -> None:
    _send(channel, {"id": number, "exit": code})


class Hub:
    """Rank 0's side: who is there, and what runs where."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._members: dict[str, Connection] = {}  # connections by the node's name
        self._asked: dict[
            int, Connection
        ] = {}  # who waits for the exit code, by the number of its request
        self._here: list[subprocess.Popen[bytes]] = []
        host, _, port = os.environ["HEADRACE_LAUNCH_ADDRESS"].rpartition(":")
        try:
            self._listener = Listener((host, int(port)), backlog=1024)
        except OSError as error:
            raise SystemExit(f"mpirun: cannot listen at {host}:{port}: {error.strerror}") from None

    def run(self, command: list[str]) -> int:
        """Run the real launcher to its end; its exit code, as a shell has it."""
        threading.Thread(target=self._accept, daemon=True).start()
        process = subprocess.Popen(command)
        code = _shell_code(process.wait())
        with self._lock:
            everybody = self._lock.wait_for(lambda: len(self._members) == len(_names()) - 1, MEET_S)
            for channel in self._members.values():
                with contextlib.suppress(*GONE):
                    _send(channel, {"end": code})
        _end(self._here)
        return code if everybody else code or 1

    def _accept(self) -> None:
        while True:
            with contextlib.suppress(*GONE):
                channel = self._listener.accept()
                threading.Thread(target=self._meet, args=(channel,), daemon=True).start()

    def _meet(self, channel: Connection) -> None:
        """One connection: a member of the gang, or somebody who asks for something to be run."""
        with contextlib.suppress(*GONE):
            deliver_challenge(channel, _key())
            answer_challenge(channel, _key())
            said = _receive(channel)
            if "member" in said:
                with self._lock:
                    self._members[said["member"]] = channel
                    self._lock.notify_all()
                while True:
                    self._ended(_receive(channel))
            elif said["run"] == _names()[0]:
                process = _start(said["command"])
                self._here.append(process)
                _then(process, lambda code: _send(channel, {"exit": code}))
            else:
                self._pass_on(channel, said["run"], said["command"])

    def _pass_on(self, channel: Connection, host: str, command: str) -> None:
        with self._lock:
            if not self._lock.wait_for(lambda: host in self._members, MEET_S):
                print(f"mpirun: {host} did not come to its mpirun", file=sys.stderr)
                _send(channel, {"exit": NOT_REACHED})
                return
            number = len(self._asked)
            self._asked[number] = channel
            _send(self._members[host], {"id": number, "run": command})
        try:
            channel.poll(None)  # it says nothing more: readable is its end
        finally:
            with self._lock, contextlib.suppress(*GONE):
                _send(self._members[host], {"stop": number})

    def _ended(self, said: Message) -> None:
        with contextlib.suppress(*GONE):
            _send(self._asked[said["id"]], {"exit": said["exit"]})


def _connect(patience_s: float) -> Connection:
    """A connection to the hub, which proves that it is of the same gang."""
    host, _, port = os.environ["HEADRACE_LAUNCH_ADDRESS"].rpartition(":")
    deadline = time.monotonic() + patience_s
    while True:
        try:
            return Client((host, int(port)), authkey=_key())
        except AuthenticationError:
            raise SystemExit(f"mpirun: {host}:{port} is not of this gang") from None
        except GONE as error:
            if time.monotonic() > deadline:
                raise SystemExit(f"mpirun: rank 0 at {host}:{port}: {error}") from None
        time.sleep(RETRY_S)


def _start(command: str) -> subprocess.Popen[bytes]:
    """In a session of its own, so that all of it can be asked to end."""
    return subprocess.Popen(["/bin/sh", "-c", command], start_new_session=True)


def _then(process: subprocess.Popen[bytes], tell: Callable[[int], None]) -> None:
    def wait() -> None:
        code = _shell_code(process.wait())
        with contextlib.suppress(*GONE):
            tell(code)

    threading.Thread(target=wait, daemon=True).start()


def _end(processes: Collection[subprocess.Popen[bytes]]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + GRACE_S
        for process in processes:
            _signal(process, number)
        for process in processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)


def _send(channel: Connection, message: Message) -> None:
    channel.send_bytes(json.dumps(message).encode())


def _receive(channel: Connection) -> Message:
    said: Message = json.loads(channel.recv_bytes(MESSAGE_BYTES_MAX))
    return said


def _key() -> bytes:
    return os.environ["HEADRACE_GANG_KEY"].encode()


def _names() -> list[str]:
    return os.environ["HEADRACE_NODE_NAMES"].split(",")


def _shell_code(code: int) -> int:
    return code if code >= 0 else 128 - code


def _real(name: str) -> str:
    """The program of this name that is not this file."""
    mine = os.path.dirname(os.path.abspath(sys.argv[0]))
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    others = [folder for folder in folders if os.path.abspath(folder) != mine]
    found = shutil.which(name, path=os.pathsep.join(others))
    if found is None:
        raise SystemExit(f"{name}: not found on this node")
    return found


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Starts MPI's daemons on the other nodes of a gang, where others use ssh.

Rule: `mpirun` is collective. The job's command runs on every node; on rank 0's, `mpirun` (this file,
before the real one in PATH) runs the real one, on the others it does what that one asks for, until it
ends, and ends with the same exit code. The real one asks through `gang-rsh HOST COMMAND…`, which is
this file too. All of it is one TCP port of rank 0's node, and a key that only the gang has.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener, answer_challenge
from multiprocessing.connection import deliver_challenge

AGENT = "gang-rsh"
INSIDE = "HEADRACE_LAUNCHED"  # set for what the real launcher starts: it is not collective again
MEET_S = 600.0  # how long nodes wait for each other's `mpirun`; setup may take as long
RETRY_S = 0.05
GRACE_S = 5.0  # between SIGTERM and SIGKILL of what is left at the end
MESSAGE_BYTES_MAX = 1_048_576
GONE = (OSError, EOFError, ValueError, AuthenticationError)


def main():
    name, arguments = os.path.basename(sys.argv[0]), sys.argv[1:]
    if name == AGENT:
        return ask(arguments[0], " ".join(arguments[1:]))
    real = _real(name)
    if os.environ.get(INSIDE) or os.environ["HEADRACE_NUM_NODES"] == "1":
        os.execv(real, [real, *arguments])
    os.environ[INSIDE] = "1"
    if os.environ["HEADRACE_NODE_RANK"] == "0":
        return Hub().run([real, *arguments])
    return serve()


def ask(host, command):
    """Have the command run on that node of the gang; its exit code."""
    channel = _connect(0.0)
    _send(channel, {"run": host, "command": command})
    return int(_receive(channel)["exit"])


def serve():
    """Run what rank 0's launcher asks for, until it ends; its exit code."""
    channel = _connect(MEET_S)
    _send(channel, {"member": _names()[int(os.environ["HEADRACE_NODE_RANK"])]})
    running = {}
    code = 1
    with contextlib.suppress(*GONE):
        while True:
            told = _receive(channel)
            if "end" in told:
                code = int(told["end"])
                break
            if "run" in told:
                process = running[told["id"]] = _start(told["run"])
                _then(process, lambda n, i=told["id"]: _send(channel, {"id": i, "exit": n}))
            elif told.get("stop") in running:
                _signal(running[told["stop"]], signal.SIGTERM)
    _end(running.values())
    return code


class Hub:
    """Rank 0's side: who is there, and what runs where."""

    def __init__(self):
        self._lock = threading.Condition()
        self._members = {}  # connections by the node's name
        self._asked = {}  # who waits for the exit code, by the number of its request
        self._here = []
        host, _, port = os.environ["HEADRACE_LAUNCH_ADDRESS"].rpartition(":")
        try:
            self._listener = Listener((host, int(port)), backlog=1024)
        except OSError as error:
            raise SystemExit(f"mpirun: cannot listen at {host}:{port}: {error.strerror}") from None

    def run(self, command):
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

    def _accept(self):
        while True:
            with contextlib.suppress(*GONE):
                channel = self._listener.accept()
                threading.Thread(target=self._meet, args=(channel,), daemon=True).start()

    def _meet(self, channel):
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

    def _pass_on(self, channel, host, command):
        with self._lock:
            if not self._lock.wait_for(lambda: host in self._members, MEET_S):
                print(f"mpirun: {host} did not come to its mpirun", file=sys.stderr)
                return _send(channel, {"exit": 255})
            number = len(self._asked)
            self._asked[number] = channel
            _send(self._members[host], {"id": number, "run": command})
        try:
            channel.poll(None)  # it says nothing more: readable is its end
        finally:
            with self._lock, contextlib.suppress(*GONE):
                _send(self._members[host], {"stop": number})

    def _ended(self, said):
        with contextlib.suppress(*GONE):
            _send(self._asked[said["id"]], {"exit": said["exit"]})


def _connect(patience_s):
    """A connection to the hub, which proves that it is of the same gang."""
    host, _, port = os.environ["HEADRACE_LAUNCH_ADDRESS"].rpartition(":")
    deadline = time.monotonic() + patience_s
    while True:
        try:
            return Client((host, int(port)), authkey=_key())
        except GONE as error:
            if time.monotonic() > deadline:
                raise SystemExit(f"mpirun: rank 0 at {host}:{port}: {error}") from None
        time.sleep(RETRY_S)


def _start(command):
    """In a session of its own, so that all of it can be asked to end."""
    return subprocess.Popen(["/bin/sh", "-c", command], start_new_session=True)


def _then(process, tell):
    def wait():
        code = _shell_code(process.wait())
        with contextlib.suppress(*GONE):
            tell(code)

    threading.Thread(target=wait, daemon=True).start()


def _end(processes):
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + GRACE_S
        for process in processes:
            _signal(process, number)
        for process in processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))


def _signal(process, number):
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)


def _send(channel, message):
    channel.send_bytes(json.dumps(message).encode())


def _receive(channel):
    return json.loads(channel.recv_bytes(MESSAGE_BYTES_MAX))


def _key():
    return os.environ["HEADRACE_GANG_KEY"].encode()


def _names():
    return os.environ["HEADRACE_NODE_NAMES"].split(",")


def _shell_code(code):
    return code if code >= 0 else 128 - code


def _real(name):
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

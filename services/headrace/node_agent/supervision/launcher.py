"""The launcher: one small process per node that forks a shim per attempt.

Rule: it starts and it reaps, nothing else. Shims do not need it once forked; when it dies, the
agent starts another, which knows nothing of the earlier ones and need not.
"""

import contextlib
import fcntl
import gc
import json
import os
import resource
import select
import signal
import socket
import struct
import sys

from headrace.node_agent.supervision import kernel, shim, tree
from headrace.node_agent.supervision.confinement import Plan
from headrace.node_agent.supervision.namespaces import ROOT
from headrace.node_agent.supervision.protocol import (
    CONNECTIONS_MAX,
    LAUNCHER_LOCK,
    LINE_BYTES_MAX,
    QUIT,
    SOCKET,
    START,
    Start,
    forked_line,
    greeting_line,
    refused_line,
)
from headrace.node_agent.supervision.rehearsal import rehearse

IDLE_MS_MAX = 10_000  # an agent that needs a launcher starts one
RECEIVED_BYTES_MAX = 65_536  # at once: for more the C library maps memory each time
_SEND_BUFFER_BYTES = 1_048_576  # answers wait here while the agent is busy
_HELD = set(shim.SIGNALS)
_READ = json.JSONDecoder().raw_decode  # `loads` without what it does beside


def main(node_dir: str) -> None:
    """Serve the node whose folder this is, until asked to quit or killed. A second launcher for
    the same folder ends at once.
    """
    os.chdir(node_dir)
    os.umask(0o077)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    lock = os.open(LAUNCHER_LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # its own, not the shims'
    except OSError:
        sys.exit(0)
    _ignore_nothing()
    kernel.adopt_orphans()
    kernel.rename("headrace-launch")
    boot = kernel.boot_id()
    signal.pthread_sigmask(signal.SIG_BLOCK, _HELD)
    rehearse(boot)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _HELD)
    launcher = Launcher(boot)
    gc.collect()
    gc.freeze()  # so that a fork shares these pages until it changes them
    gc.disable()  # nothing here makes cycles
    launcher.serve()


def _ignore_nothing() -> None:
    """What this process ignores workers would ignore too: what Python does, and Ctrl-C where the
    platform was started in the background of a script.
    """
    for number in signal.valid_signals():
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


class Launcher:
    """Listens on the node's socket and forks."""

    def __init__(self, boot: str) -> None:
        self._boot = boot
        self._pids = os.open("/proc/self/ns/pid", os.O_RDONLY)
        self._joined = ""  # the group of version 2 that this process has joined
        self._shims: set[int] = set()
        self._lines: dict[int, bytes] = {}
        self._sockets: dict[int, socket.socket] = {}
        self._woken, wake = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(wake, False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(SOCKET)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(SOCKET)
        self._listener.listen(CONNECTIONS_MAX)
        self._listening = self._listener.fileno()
        self._poll = select.poll()
        for descriptor in (self._woken, self._listening):
            self._poll.register(descriptor, select.POLLIN)

    def serve(self) -> None:
        """Answer and reap, until nobody is connected and no shim is left for a while."""
        while True:
            ready = self._poll.poll(IDLE_MS_MAX)
            if not ready and not self._sockets and not self._shims:
                sys.exit(0)
            for descriptor, _ in ready:
                if descriptor == self._woken:
                    os.read(self._woken, 4096)
                    self._reap()
                elif descriptor == self._listening:
                    self._accept()
                else:
                    self._read(descriptor)

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        size = struct.calcsize("3i")
        peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
        _, user, _ = struct.unpack("3i", peer)
        if user != os.geteuid() or len(self._sockets) >= CONNECTIONS_MAX:
            connection.close()
            return
        connection.setblocking(False)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
        descriptor = connection.fileno()
        self._sockets[descriptor], self._lines[descriptor] = connection, b""
        self._poll.register(descriptor, select.POLLIN)
        tell(connection, greeting_line(os.getpid()))

    def _read(self, descriptor: int) -> None:
        connection = self._sockets[descriptor]
        try:
            received = connection.recv(RECEIVED_BYTES_MAX)
        except BlockingIOError:
            return
        except OSError:
            received = b""
        *lines, rest = (self._lines[descriptor] + received).split(b"\n")
        if not received or len(rest) > LINE_BYTES_MAX:
            self._poll.unregister(descriptor)
            del self._sockets[descriptor], self._lines[descriptor]
            connection.close()
            return
        self._lines[descriptor] = rest
        for line in lines:
            self._obey(line, connection)

    def _obey(self, line: bytes, connection: socket.socket) -> None:
        word, _, told = line.partition(b" ")
        if word == START:
            self._start(_READ(told.decode())[0], connection)
        elif line == QUIT:
            sys.exit(0)

    def _start(self, spec: Start, connection: socket.socket) -> None:
        folder, view = spec["folder"], spec["confinement"]["view"]
        is_first = view is not None and view["kind"] == ROOT
        self._join(spec["confinement"])
        signal.pthread_sigmask(signal.SIG_BLOCK, _HELD)
        try:
            pid = self._fork_first() if is_first else os.fork()
        except OSError as error:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _HELD)
            tell(connection, refused_line(folder, str(error), "start-failed"))
            return
        if pid == 0:
            self._become_shim(spec, connection)
        self._shims.add(pid)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HELD)
        tell(connection, forked_line(folder, pid))

    def _join(self, plan: Plan) -> None:
        """Be in the group that the attempt's shim is to be in, so that it is born there: to move a process
        takes the kernel milliseconds.
        """
        group = plan["joined"]
        if group and group != self._joined:
            with contextlib.suppress(OSError):  # it says so itself when it fails there, too
                kernel.write(f"{group}/cgroup.procs", b"0", flags=0)
                self._joined = group
        if group == self._joined:
            plan["joined"] = ""

    def _fork_first(self) -> int:
        """Fork a child that is the first process of a PID namespace of its own; the next one is in this
        process's again. Raises `OSError`.
        """
        kernel.unshare(kernel.NEW_PIDS)  # of the children: not of this process
        try:
            pid = os.fork()
        except OSError:
            kernel.join(self._pids, kernel.NEW_PIDS)
            raise
        if pid:
            kernel.join(self._pids, kernel.NEW_PIDS)
        return pid

    def _become_shim(self, spec: Start, connection: socket.socket) -> None:
        """In the child: leave everything of the launcher behind; never returns."""
        try:
            os.close(self._listening)
            os.close(self._pids)
            for descriptor, other in self._sockets.items():
                if other is not connection:
                    os.close(descriptor)
            shim.run(spec, self._boot, lambda line: tell(connection, line, last=True))
        except Exception as error:
            sys.stderr.write(f"ERROR shim {type(error).__name__}: {error}\n")
            sys.stderr.flush()
        finally:
            os._exit(0)

    def _reap(self) -> None:
        """Collect ended shims. Whatever becomes this process's child without being a shim was
        left behind by a shim that was killed, and is killed too.
        """
        was_killed = False
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                if pid in self._shims:
                    self._shims.discard(pid)
                    was_killed = was_killed or os.WIFSIGNALED(status)
                else:
                    was_killed = True  # one more of those left behind: it may have had children
        if was_killed:
            strays = [pid for pid in tree.children({os.getpid()}) if pid not in self._shims]
            tree.send(strays, signal.SIGKILL)


def tell(connection: socket.socket, line: bytes, *, last: bool = False) -> None:
    """Send one line if there is room: whoever does not read learns it from the folder. After the
    `last` one this process lets go of the connection.
    """
    with contextlib.suppress(OSError):
        connection.send(line, socket.MSG_NOSIGNAL)
    if last:
        connection.close()

"""The shim: supervises one attempt's worker on this node, from its first process to its last.

Rule: it writes `exit.json` when it has proof that nothing of the attempt is left, and not before.
It is the subreaper of everything the attempt starts, so "no child left" is that proof; where an agent
that is root gives the attempt namespaces, it is the first process of them, with which the kernel ends
all others; elsewhere one of its children is (see `namespaces`). It runs an attempt once: the lock on `intent.json` keeps out a second shim, what is in it one that comes later.

Files are not synced to disk: a crash of the machine ends every attempt, and what is missing after
it reads as `lost`, which is what happened. Nor does an attempt start twice because its intent was lost:
an agent whose journal is of another boot, or missing, starts nothing that was granted before the first
document it gets (`Journal.reboot`), placement ends what it had placed on a node that has another boot id,
and what comes after has other numbers, so other folders. While the boot id stays the same, so do the
kernel's own memory and with it every file that was written, synced or not. The one case without that is
a disk that is torn out and put back while the machine runs on: an fsync for every start is not worth it.
"""

import contextlib
import json
import os
import signal
from collections.abc import Callable
from typing import Any

from headrace.node_agent.supervision import kernel, processes, sessions, tree
from headrace.node_agent.supervision.beneath import Folder
from headrace.node_agent.supervision.confinement import Confinement, kill
from headrace.node_agent.supervision.deadline import Deadline, warned_s
from headrace.node_agent.supervision.namespaces import END, LEAVE
from headrace.node_agent.supervision.output import Output
from headrace.node_agent.supervision.own_files import put_files
from headrace.node_agent.supervision.protocol import (
    GRACE_S,
    LEASE,
    REQUEUE,
    STOP,
    STOP_REASON,
    WORK,
    Start,
    lease_of,
    refused_line,
    started_line,
)
from headrace.node_agent.supervision.record import Record, journal
from headrace.node_agent.supervision.setting_up import LIMIT_S, judge, set_up
from headrace.node_agent.supervision.workplace import furnish

LEFTOVERS_GRACE_S = 5.0  # for what the command leaves running when it ends
LOOK_S = 5.0  # between two looks at output and deadline (sleep of the machine counts)
KILL_AGAIN_S_FIRST, KILL_AGAIN_S_MAX = 0.02, 1.0  # between two rounds of SIGKILL
KILLED_TOGETHER_S = (
    0.5  # who kills everything of a node kills its shims this soon after their workers
)
TIMEOUT_EXIT_CODE = 124  # as `timeout` has it
KILLED_EXIT_CODE = 128 + signal.SIGKILL  # also of a shell whose command was killed
ASKS_AGAIN = ("exited", "stopped")  # ends after which a job may
SIGNALS = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)

_LOOK_NS = int(LOOK_S * 1e9)

Tell = Callable[[bytes], None]


def run(spec: Start, boot: str, tell: Tell) -> None:
    """Run the attempt, unless it has been run before. Returns when nothing of it is left.

    `SIGNALS` must be blocked; `boot` is the kernel's id of this boot.
    """
    os.setsid()
    kernel.adopt_orphans()
    kernel.rename("headrace-shim")
    supervise(spec, boot, tell)


def supervise(spec: Start, boot: str, tell: Tell) -> None:
    """The same in a process that is a shim already."""
    record = Record.claim(spec["folder"])
    if record is not None:
        _Attempt(spec, record, boot, tell).run()


class _Attempt:
    """One attempt under way."""

    def __init__(self, spec: Start, record: Record, boot: str, tell: Tell) -> None:
        self._spec, self._record, self._tell = spec, record, tell
        self._confinement = Confinement(spec["confinement"])
        spec["count"] = len(spec["processes"])
        self._output = Output(spec["output_bytes_max"], exhausted=spec["exhausted"])
        self._alive: dict[int, int] = {}  # pid to process index
        self._sessions = sessions.Sessions(self._confinement)
        self._ended: list[dict[str, int]] = []
        self._end: dict[str, Any] = {"reason": "exited", "exit_code": 0, "message": ""}
        self._end |= {"process": -1, "boot": boot}
        self._ending = False
        self._has_let_go = False  # of init
        self._is_ended_by_init = False  # init asks all there are at once, also those being forked
        self._has_lost_one = False  # a child, since it was last looked
        self._asked: set[int] = set()
        self._kill_at_ns = 0
        self._killed_at_ns = 0  # a worker, by somebody unknown
        self._trim_at_ns = 0
        self._kill_again_s = KILL_AGAIN_S_FIRST
        self._warned_s = warned_s(spec["max_duration_s"], spec["checkpoint_grace_s"])
        self._deadline = Deadline(spec["max_duration_s"] - self._warned_s)
        self._lease_ends_ns = self._read_lease_end_ns()

    def run(self) -> None:
        """Start, supervise to the end, and say how it ended."""
        try:
            self._record.meant(self._spec, self._end["boot"])
            with Folder.at(".") as attempt:
                self._made = furnish(attempt, self._spec)
        except OSError as error:
            why = f"{error.filename or 'its folder'}: {error.strerror}"
            self._tell(refused_line(self._spec["folder"], why, processes.reason_of(error)))
            return
        self._note("start")
        try:
            self._confine()
            if self._is_covered() and self._set_up():
                self._work()
        except processes.CannotStart as error:
            self._end.update(reason=error.reason, exit_code=error.exit_code, message=str(error))
            self._stop_all(error.reason, 0.0)
        self._spec = {key: self._spec[key] for key in _KEPT}  # what was secret is dropped
        while self._turn():
            pass
        self._be_killed_too()
        self._note("end")
        self._confinement.clear()
        self._be_requeued()
        self._end.update(processes=self._ended, ended_at_us=kernel.now_us())
        self._record.ended(self._end)

    def _confine(self) -> None:
        """Make room for the worker alone. Raises `CannotStart`."""
        try:
            self._confinement.create()
            with Folder.at(".") as attempt:
                attempt.write(STOP_REASON, b"")
                made = [*self._made, *put_files(attempt, self._spec["files"])]
                self._confinement.hand_over(attempt, made, STOP_REASON)
        except OSError as error:
            message = f"cannot start: {error.filename or 'its folder'}: {error.strerror}"
            reason = processes.reason_of(error)
            raise processes.CannotStart(message, processes.NOT_EXECUTABLE, reason) from None

    def _set_up(self) -> bool:
        """Run the setup command to its end, if there is one; whether the worker may start."""
        if self._spec["setup"]:
            of_job, of_setup = self._deadline, Deadline(LIMIT_S)
            is_ours = not of_job.at_ns or of_setup.at_ns < of_job.at_ns
            self._deadline = of_setup if is_ours else of_job
            account = self._spec["confinement"]["account"]
            if not set_up(self._spec["setup"], os.path.abspath(WORK), account, self):
                judge(self._end, "0.log", is_ours=is_ours)
                return False
            self._deadline = of_job
            self._ended.clear()
            self._seal(self._spec["setup"]["folder"])
        return not self._ending

    def _seal(self, folder: str) -> None:
        """What was prepared is other attempts' too: the worker cannot change it."""
        namespaces = self._confinement.namespaces
        if namespaces is None:
            return
        try:
            namespaces.seal(folder)
        except OSError as error:
            why = f"cannot start: what its setup prepared cannot be sealed: {error.strerror}"
            raise processes.CannotStart(why, processes.NOT_EXECUTABLE) from None

    def run_first(self, command: list[str]) -> bool:
        """Run a program as the worker would be, to its end; whether it ended well."""
        self._start(0, command)
        while self._alive and self.rest(LOOK_S):
            pass
        return not self._end["exit_code"] and not self._ending

    def rest(self, most_s: float) -> bool:
        """Let time pass; whether the attempt goes on."""
        self._wait(most_s)
        self._reap()
        return bool(self._alive) or not self._ending

    def _work(self) -> None:
        for index in range(len(self._spec["processes"])):
            self._start(index, self._spec["command"])
        self._end["started_at_us"] = at_us = kernel.now_us()
        self._record.started(at_us, [kernel.number_of(pid) for pid in self._alive])
        self._tell(started_line(self._spec["folder"], at_us))

    def _start(self, index: int, command: list[str]) -> None:
        env = {**self._spec["env"], **self._spec["processes"][index]}
        folder = self._spec["cwd"]
        if not folder.startswith("/"):
            folder = f"{os.getcwd()}/{WORK}/{folder}"
        output = self._output.of(index)
        try:
            self._confinement.prepare()
        except OSError as error:
            why = f"cannot start: {error.filename}: {error.strerror}"
            raise processes.CannotStart(why, processes.NOT_EXECUTABLE) from None
        pid = self._confinement.start(command, env, folder, (0, output, output))
        self._alive[pid] = index

    def _turn(self) -> bool:
        """Reap, then wait for something to happen; False when nothing of the attempt is left."""
        if not self._reap():
            return False
        if self._ending and self._has_lost_one and not self._is_ended_by_init:
            self._ask_orphans()
        if not self._alive:
            self._end_leftovers()
        self._wait()
        return True

    def _be_requeued(self) -> None:
        """The job may have asked for another attempt, as `scontrol requeue` does."""
        with contextlib.suppress(OSError), Folder.at(".") as attempt:
            if self._end["reason"] in ASKS_AGAIN and attempt.has(REQUEUE):
                self._end["reason"] = "requeued"

    def _be_killed_too(self) -> None:
        """A worker that somebody killed has failed; one that was killed with the whole node is lost, and
        tried again. That shows in whether this process is let live.
        """
        if self._killed_at_ns:
            passed_s = (kernel.boottime_ns() - self._killed_at_ns) / 1e9
            signal.sigtimedwait((), max(0.0, KILLED_TOGETHER_S - passed_s))

    def _end_leftovers(self) -> None:
        """The worker's own processes have ended. Init ends what else is in its namespace, and goes."""
        was_ending, namespaces = self._ending, self._confinement.namespaces
        if self._has_let_go or not self._confinement.init or self._sessions.are_running:
            if not was_ending:
                self._stop_all("", LEFTOVERS_GRACE_S)
            return
        assert namespaces is not None  # whose init it is
        self._has_let_go = True
        namespaces.tell(LEAVE if was_ending else END)
        if not was_ending:
            self._ending = self._is_ended_by_init = True
            self._kill_at_ns = kernel.boottime_ns() + int(LEFTOVERS_GRACE_S * 1e9)

    def _reap(self) -> bool:
        """Collect what has ended; whether anything is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid in self._alive:
                self._has_ended(self._alive.pop(pid), status)
            else:
                self._sessions.has_ended(pid, status)

    def _has_ended(self, index: int, status: int) -> None:
        code = processes.exit_code_of(status)
        self._ended.append({"process": index, "exit_code": code})
        if code == 0 or self._end["exit_code"]:
            return
        ending = processes.ending_of(code, status)
        if lack := self._confinement.ran_out_of_memory():
            ending, self._end["reason"] = lack, "oom"
        elif code == KILLED_EXIT_CODE and not self._ending:
            self._killed_at_ns = kernel.boottime_ns()
        elif self._output.lacks_device_memory(index):
            ending = f"{ending}: out of GPU memory"
            self._end["reason"] = self._end["reason"].replace("exited", "gpu-oom")
        prefix = f"process {index}: " if self._spec["count"] > 1 else ""
        self._end.update(exit_code=code, process=index)
        self._end["message"] = self._end["message"] or f"{prefix}{ending}"
        if self._alive and not self._ending:
            self._stop_all("peer-failed", self._spec["grace_s"])

    @property
    def _has_worked(self) -> bool:
        """The worker's processes have all come to their own end: what is asked afterwards changes
        nothing of how it ended.
        """
        return "started_at_us" in self._end and not self._alive

    def _wait(self, most_s: float = LOOK_S) -> None:
        """Wait for a signal or the next deadline, and do what it asks for."""
        received = signal.sigtimedwait(SIGNALS, min(most_s, self._wait_s()))
        self._reap()  # of signals that wait, SIGTERM comes before the SIGCHLD of what ended earlier
        if received is not None and received.si_signo != signal.SIGCHLD and is_within(received):
            received = None  # nobody in the namespace has a say
        if received is not None and received.si_signo == signal.SIGUSR1:
            if self._alive and not self._ending:
                self._sessions.begin(kernel.number_of(next(iter(self._alive))))
        elif received is not None and received.si_signo != signal.SIGCHLD:
            self._stop_asked()
        self._has_lost_one = received is not None and received.si_signo == signal.SIGCHLD
        now_ns = kernel.boottime_ns()
        if self._ending and now_ns >= self._kill_at_ns:
            kill(self._confinement.folders)
            self._kill_all()
            self._kill_at_ns = now_ns + int(self._kill_again_s * 1e9)
            self._kill_again_s = min(self._kill_again_s * 2, KILL_AGAIN_S_MAX)
        elif not self._ending and not self._has_worked and self._deadline.is_over(now_ns):
            message = "max_duration reached"
            self._end.update(reason="stopped", exit_code=TIMEOUT_EXIT_CODE, message=message)
            self._stop_all(
                "timeout", self._warned_s or self._spec["grace_s"], self._spec["checkpoint_signal"]
            )
        elif self._lease_ends_ns and now_ns >= self._lease_ends_ns and not self._ending:
            self._is_covered()
        if now_ns >= self._trim_at_ns:
            self._output.trim()
            self._trim_at_ns = now_ns + _LOOK_NS

    def _wait_s(self) -> float:
        deadlines_ns = (self._deadline.at_ns, self._lease_ends_ns)
        until_ns = self._kill_at_ns if self._ending else min(filter(None, deadlines_ns), default=0)
        if not until_ns:
            return LOOK_S
        return min(LOOK_S, max(0.0, (until_ns - kernel.boottime_ns()) / 1e9))

    def _read_lease_end_ns(self) -> int:
        """When the node's lease ends for this attempt, as it is now; 0 for one that is kept."""
        after_s = self._spec["replace_after_s"]
        if not after_s:
            return 0
        try:
            from_ns = lease_of(kernel.read(f"../../{LEASE}", 256), self._end["boot"])
        except OSError:
            from_ns = 0
        return from_ns + int(after_s * 1_000_000_000)

    def _is_covered(self) -> bool:
        """Whether the lease, as it has been renewed meanwhile, covers this; it ends if not, for
        somebody else may run its successor soon.
        """
        self._lease_ends_ns = max(self._lease_ends_ns, self._read_lease_end_ns())
        if not self._lease_ends_ns or kernel.boottime_ns() < self._lease_ends_ns:
            return True
        if not self._has_worked:
            message = "stopped: disconnected: the node's lease has ended"
            self._end.update(reason="stopped", message=message)
        self._stop_all("disconnected", self._spec["grace_s"], self._spec["checkpoint_signal"])
        return False

    def _stop_asked(self) -> None:
        """The agent or an operator wants it to end; `stop.json` says why and how soon."""
        try:
            asked = json.loads(kernel.read(STOP, 4096))
        except (OSError, ValueError):
            asked = {}
        reason, grace_s = asked.get("reason", "stopped"), asked.get("grace_s", GRACE_S)
        if not self._ending and not self._has_worked:
            self._end.update(reason="stopped", message=f"stopped: {reason}")
        if not self._ending:
            name = asked.get("signal", "")
            self._stop_all(reason, grace_s, name)
        self._kill_at_ns = min(self._kill_at_ns, kernel.boottime_ns() + int(grace_s * 1e9))

    def _stop_all(self, reason: str, grace_s: float, by: str = "") -> None:
        """Ask everything to end, or, `by` a signal of its own, to save itself first; and note when it
        will be made to.
        """
        self._ending = True
        self._kill_at_ns = kernel.boottime_ns() + int(grace_s * 1e9)
        if reason:
            with contextlib.suppress(OSError):
                kernel.write(STOP_REASON, reason.encode())
        init = self._confinement.init
        asked = [pid for pid in tree.descendants(kernel.own_number()) if pid != init]
        self._asked.update(asked)
        if by:
            self._ask(asked, by)
        else:
            tree.send(asked, signal.SIGTERM)
        tree.send(asked, signal.SIGCONT)  # one that is stopped could not hear it

    def _ask(self, pids: list[int], by: str) -> None:
        """Send all that listen the signal of this name, or the command alone."""
        number = processes.signal_of(by)
        if by.startswith(processes.ALONE):
            tree.send([kernel.number_of(pid) for pid in self._alive], number)
        else:
            tree.ask(pids, number)

    def _kill_all(self) -> None:
        if os.getpid() == kernel.FIRST:
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)  # all there are at once, also those being forked
        else:
            tree.send(tree.descendants(os.getpid()), signal.SIGKILL)

    def _ask_orphans(self) -> None:
        """A process that was born just before its parent was asked to end has not heard it. What a
        living parent starts in order to end well is left alone.
        """
        parents = {kernel.own_number(), self._confinement.init}
        orphans = [pid for pid in tree.children(parents) if pid not in self._asked]
        orphans = [pid for pid in orphans if pid not in parents]
        self._asked.update(orphans)
        tree.send(orphans, signal.SIGTERM)

    def _note(self, what: str) -> None:
        identity = (self._spec["job"], self._spec["attempt"], self._spec["rank"])
        journal(self._spec["journal"], what, identity, self._spec["devices"])


def is_within(received: signal.struct_siginfo) -> bool:
    """Whether a process of the attempt's own namespace sent it, of which this one is the first: others
    have no number there. A sender that says itself who it is (a code below 0, rt_sigqueueinfo(2)) is not
    the agent.
    """
    return os.getpid() == kernel.FIRST and (received.si_pid != 0 or received.si_code < 0)


_KEPT = (
    "count", "grace_s", "checkpoint_signal", "replace_after_s", "journal", "devices", "job", "attempt",
    "rank",
)  # fmt: skip

"""Starts one process of a worker, and reads how it ended.

Rule: nothing given to it appears on a command line but the command itself; environment and secrets
go from memory to memory.
"""

import errno
import os
import signal
from collections.abc import Callable

from headrace.node_agent.supervision import kernel
from headrace.node_agent.supervision.beneath import LINK

NOT_EXECUTABLE, NOT_FOUND = 126, 127  # as a shell has it
SAID_BYTES_MAX = 1_024  # of why a process could not start
ALONE = "B:"  # before the name of one that is for the command alone, and nothing that it started
_TRIED_NEXT = (errno.ENOENT, errno.ENOTDIR, errno.EACCES)


class CannotStart(Exception):
    """The process could not be started; `exit_code` is what a shell would have given, `reason` the
    word for it in the attempt's end.
    """

    def __init__(self, message: str, exit_code: int, reason: str = "start-failed") -> None:
        super().__init__(message)
        self.exit_code, self.reason = exit_code, reason


def reason_of(error: OSError) -> str:
    """The word for an end before the start: that a disk is full is not the job's fault."""
    return "disk-full" if error.errno == errno.ENOSPC else "start-failed"


def signal_of(name: str) -> int:
    """The signal of this name (without SIG), whoever it is for; SIGTERM for one that is none."""
    return int(getattr(signal, f"SIG{name.removeprefix(ALONE)}", signal.SIGTERM))


def start(
    argv: list[str],
    env: dict[str, str],
    folder: str,
    streams: tuple[int, int, int],
    enter: Callable[[int], None],
    *,
    on_terminal: bool = False,
) -> int:
    """Start the command in a session of its own, with these descriptors as its standard input,
    output and error, which are its controlling terminal if they are one at all; its pid. `enter` is
    what the new process does first, given its parent's pid: it ends with that.

    Raises `CannotStart` with one line for people.
    """
    me = os.getpid()
    failed, fail = os.pipe()
    pid = os.fork()
    if pid == 0:
        what = ""
        try:
            os.setsid()
            if on_terminal:
                kernel.control_by(streams[0])
            enter(me)
            what = argv[0]
            _stand(folder, streams)
            _execute(argv, env)
        except OSError as error:
            _fail(fail, error, what)
        except ValueError as error:  # a NUL in an argument, "=" in a variable's name
            _fail(fail, OSError(errno.EINVAL, "", str(error)), what)
        finally:
            os._exit(NOT_FOUND)
    os.close(fail)
    said = os.read(failed, SAID_BYTES_MAX)  # nothing, once the command has replaced the child
    os.close(failed)
    if said:
        os.waitpid(pid, 0)
        raise _cannot_start(said.decode(errors="replace"))
    return pid


def start_beside(
    argv: list[str],
    env: dict[str, str],
    folder: str,
    streams: tuple[int, int, int],
    enter: Callable[[], None],
) -> int:
    """The same by a thread that has left this process's surroundings and account (`enter`), without a
    copy of this process: that is most of what a start costs. It must have a current folder of its own
    when `enter` returns.
    """
    pid, what = 0, ""

    def begin() -> None:
        nonlocal pid, what
        enter()
        what = argv[0]
        try:
            os.chdir(folder)
            pid = _spawn(argv, env, streams)
        except ValueError as error:
            raise OSError(errno.EINVAL, "", str(error)) from None

    try:
        kernel.run_beside(begin)
    except OSError as error:
        raise _cannot_start(_said(error, what)) from None
    return pid


def exit_code_of(status: int) -> int:
    """What `waitpid` said as one number: 128+N for signal N."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def ending_of(exit_code: int, status: int) -> str:
    """How a process ended, in words."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return f"killed by signal {number} ({signal.strsignal(number)})"
    return f"exit code {exit_code}"


def _stand(folder: str, streams: tuple[int, int, int]) -> None:
    """In the new process: its folder, its streams, and no signal held back."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.chdir(folder)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _spawn(argv: list[str], env: dict[str, str], streams: tuple[int, int, int]) -> int:
    """In a thread: a process in a session of its own, with no signal held back."""
    actions = [(os.POSIX_SPAWN_DUP2, stream, number) for number, stream in enumerate(streams)]

    def attempt(path: str) -> int:
        return os.posix_spawn(path, argv, env, file_actions=actions, setsid=True, setsigmask=())

    return _found(argv[0], env, attempt)


def _execute(argv: list[str], env: dict[str, str]) -> None:
    """Replace this process."""
    _found(argv[0], env, lambda path: os.execve(path, argv, env))  # noqa: S606  (no shell is meant)


def _found(command: str, env: dict[str, str], attempt: Callable[[str], int]) -> int:
    """Try what may be this command, looking it up in the worker's own PATH."""
    if "/" in command:
        return attempt(command)
    refused = OSError(errno.ENOENT, "", command)
    for folder in env.get("PATH", os.defpath).split(":"):
        path = f"{folder or '.'}/{command}"
        if not os.access(path, os.F_OK):  # cheaper than a try: that hands all of it over
            continue
        try:
            return attempt(path)
        except OSError as error:
            if error.errno not in _TRIED_NEXT:
                raise
            if error.errno == errno.EACCES:
                refused = error
    raise refused


def _said(error: OSError, command: str) -> str:
    """What went wrong in one line; `command` is empty before it was its turn."""
    what = f"{error.filename or command}"[: SAID_BYTES_MAX // 2]
    return f"{error.errno} {int(bool(command))} {error.strerror or ''}\0{what}"


def _fail(told: int, error: OSError, command: str) -> None:
    """Tell the parent what went wrong."""
    os.write(told, _said(error, command).encode(errors="replace")[:SAID_BYTES_MAX])


def _cannot_start(said: str) -> CannotStart:
    about, _, what = said.partition("\0")
    number, of_command, why = about.split(" ", 2)
    code = int(number)
    if code == errno.EINVAL and what.startswith(("embedded", "illegal")):
        return CannotStart(f"cannot start: {what}", NOT_EXECUTABLE)
    is_missing = code == errno.ENOENT and of_command == "1"
    why = LINK if code == errno.ELOOP else why or os.strerror(code)
    message = f"cannot start: {what or 'its surroundings'}: {why}"
    return CannotStart(message, NOT_FOUND if is_missing else NOT_EXECUTABLE)

"""The program `headrace`: one verb, one exit code, never a stack trace."""

from __future__ import annotations

import errno
import gc
import os
import sys
from typing import NoReturn

from headrace.cli.exits import FAILED, INTERRUPTED, OWN_FAILURE, PIPED, UNREACHABLE, report

ALLOCATIONS_UNCOLLECTED = (
    50_000  # by default 700, of which loading a verb makes hundreds, none of it garbage
)
UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


def program() -> NoReturn:
    """The process of a command line. It ends as soon as all is said: to take an interpreter apart
    takes as long as a tenth of a short verb, and no file of ours waits for that.
    """
    gc.set_threshold(ALLOCATIONS_UNCOLLECTED)
    code = main()
    if _is_alone():
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def main() -> int:
    """Run the command line this process was started with."""
    _load_msgspec()
    from headrace.cli import console

    console.prepare()
    from headrace.cli.app import main as perform

    try:
        try:
            return perform(sys.argv[1:])
        finally:
            sys.stdout.flush()  # fails here, or where Python would say so in its own words
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        if _is_pipe_broken(error):
            return _unread(PIPED)
        if isinstance(error, OSError) and error.errno in UNWRITABLE and not error.filename:
            line = f"headrace: cannot write its output: {error.strerror}"
            return _unread(report(line, FAILED))
        return _failed(error)


def _load_msgspec() -> None:
    """Load it without `typing_extensions`, which it takes where another program has installed it and
    does without elsewhere: `typing` of our Pythons has the same. It brings `inspect` and `ast`, 14 of
    the 78 ms of CPU that a `ps` took.
    """
    name = "typing_extensions"
    if name in sys.modules:
        return
    sys.modules[name] = None  # type: ignore[assignment]  # as documented: not to be found
    try:
        import msgspec  # noqa: F401
    finally:
        del sys.modules[name]


def _is_alone() -> bool:
    """Whether no other thread has to end first."""
    threading = sys.modules.get("threading")
    return threading is None or all(
        each.daemon or each is threading.main_thread() for each in threading.enumerate()
    )


def _is_pipe_broken(error: Exception) -> bool:
    """Whether whoever read our output has gone, which Windows calls an invalid argument."""
    if sys.platform == "win32" and isinstance(error, OSError):
        return error.errno in (errno.EPIPE, errno.EINVAL)
    return isinstance(error, BrokenPipeError)


def _unread(code: int) -> int:
    """The exit code when nobody can have what is left to write."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # it goes there
    return code


def _failed(error: Exception) -> int:
    """The one line and the code of what went wrong."""
    from headrace.cli.exits import REFUSED, USAGE
    from headrace.client import ClientError, Refused, Unreachable

    if isinstance(error, Refused):
        return report(str(error), REFUSED)
    if isinstance(error, Unreachable):
        return report(f"headrace: {error}", UNREACHABLE)
    if isinstance(error, ClientError):
        return report(f"headrace: {error}", FAILED)
    if isinstance(error, UnicodeEncodeError):  # what was typed is sent as it was
        return report(f"headrace: {error.object!r} is not text in UTF-8", USAGE)
    if os.environ.get("HEADRACE_DEBUG"):
        raise error
    line = f"headrace failed itself: {type(error).__name__}: {error} (HEADRACE_DEBUG=1 tells where)"
    return report(line, OWN_FAILURE)


if __name__ == "__main__":
    program()

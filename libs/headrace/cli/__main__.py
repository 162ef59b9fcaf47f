"""The program `headrace`: one verb, one exit code, never a stack trace."""

from __future__ import annotations

import os
import sys

from headrace.cli.exits import INTERRUPTED, OWN_FAILURE, PIPED, UNREACHABLE, report


def main() -> int:
    """Run the command line this process was started with."""
    from headrace.cli.app import main as perform

    try:
        return perform(sys.argv[1:])
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # whoever read our output has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPED
    except Exception as error:
        return _failed(error)


def _failed(error: Exception) -> int:
    """The one line and the code of what went wrong."""
    from headrace.cli.exits import FAILED, REFUSED
    from headrace.client import ClientError, Refused, Unreachable

    if isinstance(error, Refused):
        return report(str(error), REFUSED)
    if isinstance(error, Unreachable):
        return report(f"headrace: {error}", UNREACHABLE)
    if isinstance(error, ClientError):
        return report(f"headrace: {error}", FAILED)
    if os.environ.get("HEADRACE_DEBUG"):
        raise error
    line = f"headrace failed itself: {type(error).__name__}: {error} (HEADRACE_DEBUG=1 tells where)"
    return report(line, OWN_FAILURE)


if __name__ == "__main__":
    sys.exit(main())

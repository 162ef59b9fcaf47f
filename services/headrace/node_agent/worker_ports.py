"""Whether a port of this machine is free.

Rule: looked at just before a worker starts, for placement knows only what it gave itself. Somebody
may still come between, and the worker then fails by itself; but of who has been there for long the
port is named, and placement chooses others.
"""

from __future__ import annotations

import errno
import socket


def is_taken(port: int) -> bool:
    """Whether somebody listens there, at any of the machine's addresses."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # what lingers is free
        try:
            trial.bind(("", port))
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False

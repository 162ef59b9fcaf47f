"""Whether the ports that placement gave a worker are free on this machine.

Rule: looked at just before the worker starts, for placement knows only what it gave itself. Somebody
may still come between, and the worker then fails by itself; but who has been there for long is told
by name of the port, and placement chooses others.
"""

from __future__ import annotations

import errno
import socket

from headrace.bus.agents import Assignment

PORTS_TAKEN = "ports-taken"


def taken_port(assignment: Assignment) -> int:
    """The first of the worker's ports at which somebody listens; 0 when all are free."""
    for port in range(assignment.port, assignment.port + assignment.ports):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                trial.bind(("", port))
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    return port
    return 0

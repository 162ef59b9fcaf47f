"""Which namespaces the kernel lets this agent make, found out by making one in a child."""

from __future__ import annotations

import os
from collections.abc import Callable

from headrace.node_agent.supervision import kernel


def has_mounts() -> bool:
    """Whether processes can be given mounts of their own."""
    return _works(kernel.leave_mounts)


def has_users() -> bool:
    """Whether processes can be given users of their own."""
    return _works(kernel.leave_users)


def _works(leave: Callable[[], None]) -> bool:
    pid = os.fork()
    if pid == 0:
        try:
            leave()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1] == 0

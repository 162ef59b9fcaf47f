"""When a worker has run for as long as it may; its time stands still while it is paused."""

import json

from headrace.node_agent.supervision import kernel
from headrace.node_agent.supervision.protocol import PAUSE

PAUSE_BYTES_MAX = 16_384


def warned_s(limit_s: int, grace_s: int) -> int:
    """How long before the limit a worker that saves itself is asked to, so that the limit holds: its
    grace, of a short limit the half.
    """
    return min(grace_s, limit_s // 2)


class Deadline:
    """`at_ns` is by `CLOCK_BOOTTIME`; 0 for a worker that may run for ever."""

    def __init__(self, limit_s: int) -> None:
        self.at_ns = kernel.boottime_ns() + limit_s * 1_000_000_000 if limit_s else 0
        self._rested_ns = 0

    def is_over(self, now_ns: int) -> bool:
        """Whether the worker must end now. What it has rested meanwhile puts the moment off."""
        if self.at_ns and now_ns >= self.at_ns:
            rested_ns = _rested_ns(now_ns)
            self.at_ns += max(0, rested_ns - self._rested_ns)
            self._rested_ns = rested_ns
        return bool(self.at_ns) and now_ns >= self.at_ns


def _rested_ns(now_ns: int) -> int:
    """How long the worker has been paused so far."""
    try:
        pause = json.loads(kernel.read(PAUSE, PAUSE_BYTES_MAX))
        since_ns, rested_ns = int(pause.get("since_ns", 0)), int(pause.get("rested_ns", 0))
    except (OSError, ValueError, TypeError, AttributeError):
        return 0
    return rested_ns + (now_ns - since_ns if since_ns else 0)

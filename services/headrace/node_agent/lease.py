"""The node's lease: since when placement is known to have heard this node.

Rule: it counts from when a renewal was sent, by a clock that sleep does not stop, so it ends here
before it ends for placement. Whoever finds it too old for an attempt ends that attempt, and a lease
that has ended for an attempt is not extended before that is done.
"""

from __future__ import annotations

import logging
from pathlib import Path

from headrace.node_agent.supervision import kernel
from headrace.node_agent.supervision.protocol import LEASE, lease_line, lease_of

RENEW_S = 3.0  # between two renewals, while something here depends on them

_LOG = logging.getLogger("headrace.node_agent")


class Lease:
    """The lease in memory; `from_ns` is 0 when there is none."""

    def __init__(self, from_ns: int = 0) -> None:
        self.from_ns = from_ns

    def covers(self, replace_after_s: int) -> bool:
        """Whether an attempt that is replaced after so long may run; one that is kept always may."""
        age_ns = kernel.boottime_ns() - self.from_ns
        return not replace_after_s or (self.from_ns > 0 and age_ns < replace_after_s * 10**9)

    def renew(self, from_ns: int) -> None:
        """Placement has heard what was sent then."""
        self.from_ns = max(self.from_ns, from_ns)


class FileLease(Lease):
    """The lease in the node's folder, where shims look when theirs seems to have ended."""

    def __init__(self, node_dir: Path) -> None:
        self._path = node_dir / LEASE
        self._boot = kernel.boot_id()
        try:
            found = lease_of(kernel.read(str(self._path), 256), self._boot)
        except OSError:
            found = 0
        super().__init__(found)

    def renew(self, from_ns: int) -> None:
        """Overwritten in place: a full disk must not end what runs."""
        super().renew(from_ns)
        try:
            kernel.write(str(self._path), lease_line(self._boot, self.from_ns), flags=0)
        except OSError as error:
            _LOG.error("lease not written path=%s error=%s", self._path, error.strerror)

"""Ends what an attempt runs elsewhere than under a shim when the node's lease ends: a container, with
the agent gone.

Rule: it counts as shims do, and finds what to end by the mark that everything of an attempt carries.
It ends with the attempt, whose `exit.json` it waits for.
"""

import os
import signal
import time

from headrace.node_agent.supervision import kernel, tree
from headrace.node_agent.supervision.protocol import EXIT, LEASE, STOP_REASON, lease_of

LOOK_S = 2.0
SPARE_S = 1.0  # the agent, if there is one, ends it itself


def watch(folder: str, marker: str, after_s: str, grace_s: str) -> None:
    """Watch over the attempt in this folder until it has ended, or has been ended. The lease covers
    it for `after_s`. The caller goes on at once, and need not wait for the watcher.
    """
    os.chdir(folder)
    if os.fork():
        os._exit(0)
    kernel.rename("headrace-fence")
    boot, ends_ns = kernel.boot_id(), 0
    while not os.path.exists(EXIT):
        ends_ns = max(ends_ns, _lease_end_ns(boot, int(after_s)))
        left_s = (ends_ns - kernel.boottime_ns()) / 1e9 + SPARE_S
        if left_s <= 0:
            _end(marker, int(grace_s))
            return
        time.sleep(min(LOOK_S, left_s))


def _lease_end_ns(boot: str, after_s: int) -> int:
    try:
        from_ns = lease_of(kernel.read(f"../../{LEASE}", 256), boot)
    except OSError:
        from_ns = 0
    return from_ns + after_s * 1_000_000_000


def _end(marker: str, grace_s: int) -> None:
    kernel.write(STOP_REASON, b"disconnected")
    tree.send(tree.of_attempt(marker, [], []), signal.SIGTERM)
    until_ns = kernel.boottime_ns() + grace_s * 1_000_000_000
    while tree.of_attempt(marker, [], []) and kernel.boottime_ns() < until_ns:
        time.sleep(LOOK_S / 20)
    tree.sweep(marker, [], [])

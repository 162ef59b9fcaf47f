"""CUDA's own checkpointing, in a process of its own that is started when it is needed.

Rule: the driver is asked only there: what it loads would stay in the agent for ever, and what it
breaks would take the agent along. Agent and helper speak one JSON line each way per call.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import Any

from headrace.node_agent.pausing import CHECKPOINT, IPC, MIGRATE, DriverError

LOCK_MS_MAX = 30_000  # for what a process has begun on its GPUs
PROBE_S_MAX = 120.0
_WORDS = (CHECKPOINT, MIGRATE, IPC)


class CudaDriver:
    """The helper's end in the agent; may be called from any thread. `found` is what the probe said
    before, so that it is made once in an agent's life.
    """

    def __init__(self) -> None:
        self._helper: subprocess.Popen[str] | None = None
        self._one_at_a_time = threading.Lock()
        self._found: tuple[str, ...] | None = None

    def probe(self) -> tuple[str, ...]:
        if self._found is None:
            self._found = _probed()
        return self._found

    def state(self, pid: int) -> str | None:
        found = self._ask("state", pid)
        return str(found) if found is not None else None

    def lock(self, pid: int) -> None:
        self._ask("lock", pid)

    def checkpoint(self, pid: int) -> None:
        self._ask("checkpoint", pid)

    def restore(self, pid: int, devices: Mapping[str, str]) -> None:
        self._ask("restore", pid, {old: new for old, new in devices.items() if old != new})

    def unlock(self, pid: int) -> None:
        self._ask("unlock", pid)

    def memory_bytes(self, pid: int) -> int:
        return int(self._ask("memory", pid))

    def close(self) -> None:
        with self._one_at_a_time:
            helper, self._helper = self._helper, None
        if helper is not None and helper.stdin is not None:
            helper.stdin.close()  # at which it ends
            helper.wait()

    def _ask(self, what: str, *arguments: Any) -> Any:
        """The helper's answer. Raises `DriverError`, also when the helper has died over it."""
        with self._one_at_a_time:
            if self._helper is None or self._helper.poll() is not None:
                self._helper = _start_helper()
            assert self._helper.stdin is not None  # a pipe, as the next
            assert self._helper.stdout is not None
            try:
                self._helper.stdin.write(json.dumps([what, *arguments]) + "\n")
                self._helper.stdin.flush()
                line = self._helper.stdout.readline()
            except OSError:
                line = ""
        if not line:
            raise DriverError(f"{what}: the driver's process has died")
        answer, failed = json.loads(line)
        if failed:
            raise DriverError(failed)
        return answer


def _start_helper() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "headrace.node_agent.pausing.cuda_helper"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )


def _probed() -> tuple[str, ...]:
    """What a trial with a process of our own showed; nothing where that failed or took too long."""
    command = [sys.executable, "-m", "headrace.node_agent.pausing.cuda_probe"]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PROBE_S_MAX, check=False
        )
        said = done.stdout.split()
        return tuple(word for word in _WORDS if word in said)
    return ()

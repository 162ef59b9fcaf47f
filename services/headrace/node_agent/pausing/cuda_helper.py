"""The process that speaks with CUDA's driver: reads one request a line, answers one line.

Rule: every request is answered, with what was found or with one line saying why it failed. It ends
with its standard input.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

from headrace.node_agent.pausing.cuda import LOCK_MS_MAX

REASON_LENGTH_MAX = 300


class Cuda:
    """The calls, each on one process. Raises whatever the driver's binding does."""

    def __init__(self) -> None:
        from cuda.bindings import driver
        from cuda.core import checkpoint

        driver.cuInit(0)  # restoring needs it, or persistence mode
        self._checkpoint = checkpoint

    def state(self, pid: int) -> str | None:
        """How the process stands; None for one that the driver does not know."""
        try:
            return str(self._checkpoint.Process(pid).state)
        except Exception:  # it says in several ways that the process uses no GPU
            return None

    def lock(self, pid: int) -> None:
        self._checkpoint.Process(pid).lock(timeout_ms=LOCK_MS_MAX)

    def checkpoint(self, pid: int) -> None:
        self._checkpoint.Process(pid).checkpoint()

    def restore(self, pid: int, moved: Mapping[str, str]) -> None:
        """`moved` maps the GPUs that change; the driver wants to be told of all that it has."""
        self._checkpoint.Process(pid).restore(gpu_mapping=whole_mapping(moved, gpus_of()) or None)

    def unlock(self, pid: int) -> None:
        self._checkpoint.Process(pid).unlock()

    def memory(self, pid: int) -> int:
        """Bytes that the process has on all GPUs, as NVML counts; 0 when it does not say."""
        import pynvml

        pynvml.nvmlInit()
        used = 0
        for index in range(pynvml.nvmlDeviceGetCount()):
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            for found in pynvml.nvmlDeviceGetComputeRunningProcesses(handle):
                used += int(found.usedGpuMemory or 0) if found.pid == pid else 0
        return used


def whole_mapping(moved: Mapping[str, str], gpus: list[str]) -> dict[str, str]:
    """A mapping of all GPUs onto all: what moves as told, and the GPUs that this leaves without a
    source onto those that it leaves without a target. Empty when nothing moves.
    """
    if not moved:
        return {}
    bare = {_bare(old): _bare(new) for old, new in moved.items()}
    known = [_bare(gpu) for gpu in gpus]
    targets = [gpu for gpu in known if gpu not in bare.values()]
    stay = [gpu for gpu in known if gpu not in bare and gpu in targets]
    left = [gpu for gpu in known if gpu not in bare and gpu not in targets]
    free = [gpu for gpu in targets if gpu not in stay]
    return bare | {gpu: gpu for gpu in stay} | dict(zip(left, free, strict=True))


def answer(calls: Callable[[], Any], line: str) -> str:
    """The line that answers this one."""
    try:
        what, *arguments = json.loads(line)
        return json.dumps([getattr(calls(), what)(*arguments), ""])
    except Exception as error:  # whatever the binding raises is an answer
        reason = " ".join(str(error).split()) or type(error).__name__
        return json.dumps([None, reason[:REASON_LENGTH_MAX]])


def main() -> None:
    """Serve until standard input ends."""
    made: list[Cuda] = []

    def calls() -> Cuda:
        if not made:
            made.append(Cuda())
        return made[0]

    for line in sys.stdin:
        print(answer(calls, line), flush=True)


def gpus_of() -> list[str]:
    """The UUIDs of all GPUs that NVML knows."""
    import pynvml

    pynvml.nvmlInit()
    handles = (pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount()))
    names = (pynvml.nvmlDeviceGetUUID(handle) for handle in handles)
    return [name.decode() if isinstance(name, bytes) else str(name) for name in names]


def _bare(uuid: str) -> str:
    """As the driver's binding takes it."""
    return uuid.removeprefix("GPU-")


if __name__ == "__main__":
    main()

"""Finds out by trying what this machine's driver can do, and prints it: `checkpoint migrate`.

Rule: only children of its own are tried on, which show afterwards that their memory is what it was.
A trial that fails says nothing and proves nothing; the word is then left out. `ipc` is memory that
one process has made and another has opened too, as processes of one worker do to be faster.
"""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from typing import TypeAlias

from headrace.node_agent.pausing import CHECKPOINT, IPC, MIGRATE
from headrace.node_agent.pausing.cuda_helper import Cuda, gpus_of

Child: TypeAlias = "subprocess.Popen[str]"

PROGRAM = """
import sys
from cuda.bindings import driver as d
def ok(r):
    assert r[0] == 0, r
    return r[1] if len(r) > 1 else None
ok(d.cuInit(0)); dev = ok(d.cuDeviceGet(0)); ctx = ok(d.cuDevicePrimaryCtxRetain(dev))
ok(d.cuCtxSetCurrent(ctx))
if len(sys.argv) > 1:
    h = d.CUipcMemHandle(); h.reserved = bytes.fromhex(sys.argv[1])
    p = ok(d.cuIpcOpenMemHandle(h, 1))
    print("ready", flush=True)
else:
    p = ok(d.cuMemAlloc(1 << 20)); ok(d.cuMemsetD8(p, 90, 1 << 20)); ok(d.cuCtxSynchronize())
    print("ready", bytes(ok(d.cuIpcGetMemHandle(p)).reserved).hex(), flush=True)
sys.stdin.readline()
b = bytearray(1 << 20); ok(d.cuMemcpyDtoH(b, p, 1 << 20))
print("same" if set(b) == {90} else "changed", flush=True)
"""


def main() -> None:
    """Print what was found; nothing without a driver."""
    try:
        gpus = gpus_of()
        cuda = Cuda()
    except Exception:  # no driver, no binding, no GPU: all say no
        return
    found = [CHECKPOINT] if _survives(cuda, {}) else []
    if found and len(gpus) > 1 and _survives(cuda, {gpus[0]: gpus[1]}):
        found.append(MIGRATE)
    if found and _survives(cuda, {}, is_shared=True):
        found.append(IPC)
    print(*found)


def _survives(cuda: Cuda, moved: dict[str, str], *, is_shared: bool = False) -> bool:
    """Whether a process comes through a pause with its memory; with another that opened it, if that
    `is_shared`.
    """
    children: list[Child] = []
    try:
        handle = _begun(children)
        if is_shared:
            _begun(children, handle)
        for step in (cuda.lock, cuda.checkpoint, partial(_restored, cuda, moved), cuda.unlock):
            for child in children:
                step(child.pid)
        return all(_is_same(child) for child in children)
    except Exception:  # whatever it was, it did not work
        return False
    finally:
        for child in children:
            child.kill()
            child.wait()


def _restored(cuda: Cuda, moved: dict[str, str], pid: int) -> None:
    cuda.restore(pid, moved)


def _begun(children: list[Child], *handle: str) -> str:
    """Start one more child, with the handle of another's memory or with memory of its own; the
    handle of that. Raises `ValueError` when it says something else.
    """
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *handle],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    children.append(child)
    assert child.stdout is not None  # a pipe
    ready, *made = child.stdout.readline().split()
    if ready != "ready":
        raise ValueError(ready)
    return made[0] if made else ""


def _is_same(child: Child) -> bool:
    assert child.stdin is not None  # a pipe, as the next
    assert child.stdout is not None
    child.stdin.write("\n")
    child.stdin.flush()
    return child.stdout.readline().strip() == "same"


if __name__ == "__main__":
    main()

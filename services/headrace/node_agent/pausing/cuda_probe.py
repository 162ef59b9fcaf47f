"""Finds out by trying what this machine's driver can do, and prints it: `checkpoint migrate`.

Rule: only a child of its own is tried on, which shows afterwards that its memory is what it was.
A trial that fails says nothing and proves nothing; the word is then left out.
"""

from __future__ import annotations

import subprocess
import sys

from headrace.node_agent.pausing import CHECKPOINT, MIGRATE
from headrace.node_agent.pausing.cuda_helper import Cuda, gpus_of

CHILD = """
import sys
from cuda.bindings import driver as d
def ok(r):
    assert r[0] == 0, r
    return r[1] if len(r) > 1 else None
ok(d.cuInit(0)); dev = ok(d.cuDeviceGet(0)); ctx = ok(d.cuDevicePrimaryCtxRetain(dev))
ok(d.cuCtxSetCurrent(ctx)); p = ok(d.cuMemAlloc(1 << 20)); ok(d.cuMemsetD8(p, 90, 1 << 20))
print("ready", flush=True); sys.stdin.readline()
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
    print(*found)


def _survives(cuda: Cuda, moved: dict[str, str]) -> bool:
    """Whether a process comes through a pause with its memory."""
    command = [sys.executable, "-c", CHILD]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin is not None  # a pipe, as the next
        assert child.stdout is not None
        try:
            if child.stdout.readline().strip() != "ready":
                return False
            cuda.lock(child.pid)
            cuda.checkpoint(child.pid)
            cuda.restore(child.pid, moved)
            cuda.unlock(child.pid)
            child.stdin.write("\n")
            child.stdin.flush()
            return child.stdout.readline().strip() == "same"
        except Exception:  # whatever it was, it did not work
            return False
        finally:
            child.kill()


if __name__ == "__main__":
    main()

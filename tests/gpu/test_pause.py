"""Pause and resume on a real GPU: a process's memory comes back as it was, and how fast.

Run by `make test-gpu`; skipped loudly where there is no GPU, no torch or no driver that can.
"""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from headrace.node_agent.pausing import CHECKPOINT, LOCKED, RUNNING
from headrace.node_agent.pausing.cuda import CudaDriver
from headrace.node_agent.pausing.ladder import PAUSED
from headrace.node_agent.pausing.moving import move

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]

HELD_BYTES = 40 * 10**9
TIMES_PCIE_MAX = 3
HOLDS = f"""
import sys, torch
n = min({HELD_BYTES}, int(torch.cuda.mem_get_info()[0] * 0.8))
held = torch.full((n,), 7, dtype=torch.uint8, device="cuda")
torch.cuda.synchronize(); print(n, flush=True); sys.stdin.readline()
ok = bool((held[:: 1 << 16] == 7).all()) and int(held[-1]) == 7
print("same" if ok else "changed", flush=True)
"""
COPIES = """
import time, torch
n = 4 * 10**9
host, gpu = torch.empty(n, dtype=torch.uint8, pin_memory=True), torch.empty(n, dtype=torch.uint8, device="cuda")
gpu.copy_(host); torch.cuda.synchronize(); began = time.monotonic()
for _ in range(3): host.copy_(gpu); torch.cuda.synchronize()
print(int(3 * n / (time.monotonic() - began)))
"""


@pytest.fixture(scope="module")
def driver():
    torch = pytest.importorskip("torch", reason="SKIPPED: torch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("SKIPPED: there is no GPU")
    driver = CudaDriver()
    if CHECKPOINT not in driver.probe():
        pytest.skip("SKIPPED: this driver was not found to checkpoint a process")
    yield driver
    driver.close()


def test_a_process_leaves_its_gpu_and_comes_back_with_its_memory(driver, record_property):
    copied = subprocess.run([sys.executable, "-c", COPIES], capture_output=True, text=True)
    pcie_bytes_per_s = int(copied.stdout)
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        held_bytes = int(holder.stdout.readline())
        pids = lambda: [holder.pid]  # noqa: E731
        assert not move(driver, pids, LOCKED, {}).failed
        used_bytes = driver.memory_bytes(holder.pid)
        began = time.monotonic()
        assert move(driver, pids, PAUSED, {}).wanted == PAUSED
        paused_s, began = time.monotonic() - began, time.monotonic()
        free_bytes = driver.memory_bytes(holder.pid)
        assert not move(driver, pids, RUNNING, {}).failed
        resumed_s = time.monotonic() - began
        holder.stdin.write("\n")
        holder.stdin.flush()
        assert holder.stdout.readline().strip() == "same"
        holder.kill()
    pcie_s = held_bytes / pcie_bytes_per_s
    print(f"held {held_bytes} bytes: paused in {paused_s:.2f} s, resumed in {resumed_s:.2f} s,")
    print(f"one PCIe copy {pcie_s:.2f} s ({pcie_bytes_per_s / 1e9:.1f} GB/s)")
    for name, value in (("paused_s", paused_s), ("resumed_s", resumed_s), ("pcie_s", pcie_s)):
        record_property(name, value)
    assert free_bytes < used_bytes or used_bytes == 0
    assert max(paused_s, resumed_s) <= TIMES_PCIE_MAX * pcie_s

"""What this machine has, and at the end in large letters what was not tried for lack of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.node_agent.rig import Node

from headrace.node_agent.devices import amd, nvml
from headrace.node_agent.devices.amd import AmdDevices
from headrace.node_agent.devices.nvml import NvmlDevices
from headrace.node_agent.enforcement.mps import PROGRAM, Mps


@pytest.fixture(scope="session")
def nvidia() -> NvmlDevices:
    library = nvml.library()
    if library is None:
        pytest.skip("no NVIDIA driver")
    return NvmlDevices(library)


@pytest.fixture(scope="session")
def amds() -> AmdDevices:
    library = amd.library()
    if library is None:
        pytest.skip("no AMD driver, or no amdsmi")
    return AmdDevices(library)


@pytest.fixture
async def gpu_node(nvidia: NvmlDevices, tmp_path: Path) -> AsyncIterator[Node]:
    """A real agent on the real GPUs, without MPS."""
    node = Node(tmp_path)
    node.devices = lambda: nvidia
    await _started(node)
    yield node
    await node.close()


@pytest.fixture
async def mps_node(nvidia: NvmlDevices, tmp_path: Path) -> AsyncIterator[Node]:
    """The same, with MPS."""
    mps = Mps(tmp_path / "mps")
    if mps.program is None:
        pytest.skip(f"no {PROGRAM}")
    node = Node(tmp_path)
    node.devices, node.mps = (lambda: nvidia), mps
    await _started(node)
    yield node
    await node.close()
    await mps.end_all()


async def _started(node: Node) -> None:
    await node.placement.open()
    await node.start()
    await node.ready()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    ours = [report for report in skipped if report.nodeid.startswith("tests/gpu/")]
    if not ours:
        return
    terminalreporter.section("NOT TRIED ON THIS MACHINE", sep="!", red=True, bold=True)
    for report in ours:
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        terminalreporter.line(f"{report.nodeid.partition('::')[2]}: {why}")
    terminalreporter.line(f"{len(ours)} checks need hardware that is not here")

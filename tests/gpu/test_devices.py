"""Real GPUs: what there is, and shares of one that are held to."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.node_agent.rig import Node, until

from headrace.events.gangs import Share
from headrace.node_agent.devices.amd import AmdDevices
from headrace.node_agent.devices.nvml import NvmlDevices
from headrace.node_agent.machine import AttemptKey

pytestmark = pytest.mark.gpu

HOLD = str(Path(__file__).parent / "hold.py")
STEPS_SEEN = 4  # a second each


def test_nvidia_gpus_are_listed_with_their_health(nvidia: NvmlDevices) -> None:
    devices = nvidia.list()
    for device in devices:
        print(device)
    assert devices
    assert all(device.device.startswith(("GPU-", "MIG-")) for device in devices)
    assert all(device.memory_bytes > 2**30 for device in devices)
    assert [s.device for s in nvidia.sample({})] == [d.device for d in devices if d.healthy]
    assert all(trouble.text for trouble in nvidia.watch())


def test_amd_gpus_are_listed_with_their_health(amds: AmdDevices) -> None:
    devices = amds.list()
    for device in devices:
        print(device)
    assert devices
    assert all(device.memory_bytes > 2**30 for device in devices)
    assert [s.device for s in amds.sample({})] == [d.device for d in devices if d.healthy]


async def test_the_watch_ends_who_takes_more_and_its_neighbour_keeps_its_pace(
    gpu_node: Node, nvidia: NvmlDevices
) -> None:
    modest, alone = await _alone(gpu_node, nvidia)
    greedy = await gpu_node.placement.want("greedy", *_holding(nvidia, 800), **_half(nvidia))

    end = await gpu_node.placement.ended(greedy)

    assert (end.reason, end.enforcement) == ("over-share", "watch")
    assert "its share of 0.5 is" in end.message
    await _keeps_its_pace(gpu_node, modest, alone)


async def test_mps_refuses_more_than_a_share_and_the_neighbour_keeps_its_pace(
    mps_node: Node, nvidia: NvmlDevices
) -> None:
    modest, alone = await _alone(mps_node, nvidia)
    greedy = await mps_node.placement.want("greedy", *_holding(nvidia, 800), **_half(nvidia))

    end = await mps_node.placement.ended(greedy)

    assert (end.reason, end.exit_code, end.enforcement) == ("exited", 2, "mps")
    assert "enforced by MPS" in end.message
    await _keeps_its_pace(mps_node, modest, alone)


async def _alone(node: Node, nvidia: NvmlDevices) -> tuple[AttemptKey, list[int]]:
    """A worker within its half, and its steps a second while it is alone."""
    key = await node.placement.want("modest", *_holding(nvidia, 300), **_half(nvidia))
    return key, await _steps(node, key, STEPS_SEEN)


async def _keeps_its_pace(node: Node, key: AttemptKey, alone: list[int]) -> None:
    seen = len(await _steps(node, key, 0))
    after = (await _steps(node, key, seen + STEPS_SEEN))[seen + 1 :]
    print(f"steps a second: alone {alone}, after its neighbour {after}")
    assert node.placement.end_of(key) is None
    assert sum(after) / len(after) >= 0.9 * sum(alone[1:]) / len(alone[1:])


async def _steps(node: Node, key: AttemptKey, count: int) -> list[int]:
    """The first `count` seconds' steps, or more."""
    found: list[int] = []

    def enough() -> bool:
        path = node.folder(key) / "0.log"
        lines = path.read_text().splitlines() if path.exists() else []
        found[:] = [int(line.split()[1]) for line in lines if line.startswith("steps ")]
        return len(found) >= count

    await until(enough, "steps")
    return found


def _holding(nvidia: NvmlDevices, milli: int) -> tuple[str, ...]:
    held_bytes = nvidia.list()[0].memory_bytes * milli // 1000
    return (sys.executable, HOLD, str(held_bytes), "60")


def _half(nvidia: NvmlDevices) -> dict[str, object]:
    device = nvidia.list()[0]
    if device.profile:
        pytest.skip("its first GPU is divided into slices")
    return {"shares": (Share(device=device.device, milli=500),)}

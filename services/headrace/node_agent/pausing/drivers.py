"""Which driver moves processes off a node's devices."""

from __future__ import annotations

from pathlib import Path

from headrace.node_agent.devices import Devices
from headrace.node_agent.pausing import Driver, NoDriver


def driver_of(gpus: str, node_dir: Path, devices: Devices) -> Driver:
    """What moves processes off those devices, if anything can."""
    if gpus.startswith("simulated:"):
        from headrace.node_agent.pausing.simulated import SimulatedDriver

        return SimulatedDriver(node_dir)
    if not any(device.vendor == "nvidia" for device in devices.list()):
        return NoDriver()
    from headrace.node_agent.pausing.cuda import CudaDriver

    return CudaDriver()

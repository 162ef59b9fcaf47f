"""Which driver a node's devices have, as its setting says."""

from __future__ import annotations

from pathlib import Path

from headrace.node_agent.devices import Devices


def devices_of(gpus: str, node: str, node_dir: Path) -> Devices:
    """The devices that `gpus` asks for: `auto` (whatever has a driver here, else none), `none`,
    `static:FILE`, or a specification of simulated ones, which tell of themselves below `node_dir`.
    Raises `ValueError` with one line naming what is wrong.
    """
    if gpus == "auto":
        return _found(node)
    kind, _, rest = gpus.partition(":")
    if kind in ("static", "none"):
        from headrace.node_agent.devices import static

        return static.StaticDevices(static.read(rest) if kind == "static" else None, node)
    from headrace.node_agent.devices.simulated import SimulatedDevices

    return SimulatedDevices(gpus, node, node_dir)


def _found(node: str) -> Devices:
    from headrace.node_agent.devices import amd, nvml, static

    if (nvidia := nvml.library()) is not None:
        return nvml.NvmlDevices(nvidia)
    if (smi := amd.library()) is not None:
        return amd.AmdDevices(smi)
    return static.StaticDevices(None, node)

"""How a container is shown its GPUs: by CDI where the host specifies them, else by the vendor's
runtime, else by their files alone.

Rule: pure. The first way that shows every one of a worker's devices and no other is used. Files bring
no driver's libraries: the image has to have them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from headrace.events.nodes import Device
from headrace.node_agent.containers.facts import Facts

REAL = {"nvml": "nvidia", "amd": "amd"}  # kinds of devices that are there: their vendor
RUNTIME = "nvidia"  # the name under which NVIDIA's toolkit registers itself
RIGHTS = "rwm"


class Shown(NamedTuple):
    """What the container's host part and its environment say about devices."""

    host: dict[str, Any]
    env: dict[str, str]
    way: str  # cdi | runtime | files | "": there is nothing to show


def shown(devices: Sequence[Device], files: Sequence[str], facts: Facts) -> Shown:
    """How these are shown, in the order in which the worker counts them; `files` are their own."""
    hidden = {"NVIDIA_VISIBLE_DEVICES": "void"} if RUNTIME in facts.runtimes else {}
    real = [device for device in devices if device.kind in REAL]
    if not real:
        return Shown({"Devices": mapped(files)} if files else {}, hidden, "files" if files else "")
    vendor = REAL[real[0].kind]
    names = [_cdi_name(device, vendor, facts.cdi) for device in real]
    if all(names):
        return Shown({"DeviceRequests": [{"Driver": "cdi", "DeviceIDs": names}]}, hidden, "cdi")
    if vendor == "nvidia" and RUNTIME in facts.runtimes:
        env = {
            "NVIDIA_VISIBLE_DEVICES": ",".join(device.device for device in real),
            "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
        }
        return Shown({"Runtime": RUNTIME}, env, "runtime")
    return Shown({"Devices": mapped([*files, *facts.device_files.get(vendor, ())])}, {}, "files")


def mapped(files: Sequence[str]) -> list[dict[str, str]]:
    """Device files under the names that they have on the host."""
    return [
        {"PathOnHost": path, "PathInContainer": path, "CgroupPermissions": RIGHTS} for path in files
    ]


def _cdi_name(device: Device, vendor: str, known: frozenset[str]) -> str:
    """By UUID, or by index for a whole device; empty when the host specifies neither."""
    names = [device.device] if device.profile else [device.device, str(device.index)]
    qualified = (f"{vendor}.com/gpu={name}" for name in names)
    return next((name for name in qualified if name in known), "")

"""NVIDIA GPUs as the driver sees them.

Rule: the driver is asked only here, and its library is loaded only when asked. A GPU that the
driver does not answer for is not healthy; it stays in the inventory.
"""

from __future__ import annotations

import os
from typing import Any

import msgspec

from headrace.events.nodes import Device
from headrace.node_agent.devices import Samples


class NvmlDevices:
    """The machine's GPUs; none where there is no driver."""

    enforcement = "none"

    def __init__(self) -> None:
        self.cpu_milli = 1000 * len(os.sched_getaffinity(0))
        self.memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        self._nvml = _driver()
        self._handles: dict[str, Any] = {}
        self._known: tuple[Device, ...] = ()
        if self._nvml is not None:
            self._known = tuple(self._device(n) for n in range(self._nvml.nvmlDeviceGetCount()))

    def inventory(self) -> tuple[Device, ...]:
        return tuple(
            msgspec.structs.replace(device, healthy=self._answers(device.device))
            for device in self._known
        )

    def samples(self, held_milli: dict[str, int]) -> Samples:
        del held_milli  # the driver knows better
        return tuple(sample for name in self._handles if (sample := self._sample(name)) is not None)

    def _device(self, index: int) -> Device:
        nvml = self._nvml
        assert nvml is not None  # there is an index only where there is a driver
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        uuid = _text(nvml.nvmlDeviceGetUUID(handle))
        memory_bytes = int(nvml.nvmlDeviceGetMemoryInfo(handle).total)
        self._handles[uuid] = handle
        model = model_of(_text(nvml.nvmlDeviceGetName(handle)), memory_bytes)
        return Device(device=uuid, index=index, model=model, memory_bytes=memory_bytes)

    def _answers(self, uuid: str) -> bool:
        return self._sample(uuid) is not None

    def _sample(self, uuid: str) -> tuple[str, int, int] | None:
        nvml = self._nvml
        assert nvml is not None  # there is a UUID only where there is a driver
        try:
            handle = self._handles[uuid]
            busy = int(nvml.nvmlDeviceGetUtilizationRates(handle).gpu)
            return uuid, busy * 10, int(nvml.nvmlDeviceGetMemoryInfo(handle).used)
        except nvml.NVMLError:
            return None


def model_of(name: str, memory_bytes: int) -> str:
    """The driver's name as job files have it: `NVIDIA H100 80GB HBM3` is `H100-80GB`.

    The size is the smallest marketed one that holds what the driver found: names leave it out, or
    mean other memory.
    """
    words = [word for word in name.replace("-", " ").split() if word not in _MAKERS] or ["GPU"]
    model = "".join(words[:2]) if words[0] in _SERIES else words[0]
    gibibytes = memory_bytes * 995 // 1000 / 2**30  # drivers round up a little
    marketed = next((size for size in _MARKETED if size >= gibibytes), round(gibibytes))
    return f"{model}-{marketed}GB"


_MAKERS = {"NVIDIA", "Tesla", "Quadro", "GeForce"}
_SERIES = {"RTX", "GTX", "TITAN", "Graphics"}
_MARKETED = (
    4, 6, 8, 10, 11, 12, 16, 20, 24, 32, 40, 48, 64, 80, 94, 96, 141, 144, 180, 192, 288,
)  # fmt: skip


def _driver() -> Any:
    """NVML, initialised; None where there is no driver or no library."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    return pynvml


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value

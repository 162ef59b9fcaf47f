"""NVIDIA GPUs as their driver sees them.

Rule: the driver is asked only here and in `nvml_health`. What it does not support is left out; what
it does not answer is a fault of the device.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import msgspec

from headrace.events.gangs import Share
from headrace.events.nodes import Device
from headrace.node_agent.devices import Sample, Trouble, host, nvidia_binding
from headrace.node_agent.devices.models import model_of
from headrace.node_agent.devices.nvml_health import Health


@dataclass(frozen=True)
class Gpu:
    """One GPU that answered: what it offers (itself, or its MIG slices), how to ask for each, and
    the number by which events name a slice.
    """

    handle: Any
    uuid: str
    devices: tuple[Device, ...]
    handles: dict[str, Any]
    file: str
    instances: dict[str, int] = field(default_factory=dict)


class NvmlDevices:
    """The machine's GPUs. `library` speaks NVML and is initialised."""

    def __init__(self, library: Any) -> None:
        self._nvml = library
        self.cpu_milli, self.memory_bytes = host.cpu_milli(), host.memory_bytes()
        self._health = Health(library)
        self._gpus: dict[int, Gpu] = {}
        self._joined: tuple[tuple[str, ...], dict[str, str]] = ((), {})
        self._count = 0
        self._tells: dict[str, bool] = {}  # whether a GPU tells what its processes hold

    @property
    def can_watch(self) -> bool:
        return bool(self._tells) and all(self._tells.values())

    def list(self) -> tuple[Device, ...]:
        with contextlib.suppress(self._nvml.NVMLError):
            self._count = max(self._count, self._nvml.nvmlDeviceGetCount())
        found: list[Device] = []
        for index in range(self._count):
            try:
                gpu = self._gpus[index] = self._read(index)
                self._health.listen(gpu.uuid, gpu.handle)
                if gpu.uuid not in self._tells:
                    self._tells[gpu.uuid] = self._tells_of_processes(gpu.handle)
                found += gpu.devices
            except self._nvml.NVMLError as error:
                found += self._silent(index, error)
        islands = self._islands()
        return tuple(msgspec.structs.replace(d, island=islands.get(d.device, "")) for d in found)

    def sample(self, held_milli: dict[str, int]) -> tuple[Sample, ...]:
        del held_milli  # the driver knows better
        samples = [self._sample(*of) for gpu in self._gpus.values() for of in gpu.handles.items()]
        return tuple(sample for sample in samples if sample is not None)

    def watch(self) -> tuple[Trouble, ...]:
        found: list[Trouble] = []
        for gpu in self._gpus.values():
            for trouble, instance in self._health.heard(gpu.uuid):
                hit = [uuid for uuid, number in gpu.instances.items() if number == instance]
                found += (trouble._replace(device=uuid) for uuid in hit or gpu.handles)
        return tuple(found)

    def bind(self, shares: Sequence[Share], _folder: str = "", /) -> dict[str, str]:
        return nvidia_binding.visible(shares)

    def files(self) -> dict[str, str]:
        return {name: gpu.file for gpu in self._gpus.values() if gpu.file for name in gpu.handles}

    def _read(self, index: int) -> Gpu:
        """Everything about the GPU of this index. Raises the library's error."""
        nvml = self._nvml
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        uuid, memory_bytes = text(nvml.nvmlDeviceGetUUID(handle)), _total(nvml, handle)
        fault = self._health.fault(handle)
        whole = Device(
            device=uuid,
            index=index,
            model=model_of(text(nvml.nvmlDeviceGetName(handle)), memory_bytes),
            memory_bytes=memory_bytes,
            healthy=not fault,
            fault=fault,
        )
        slices, file = _slices(nvml, handle), _file(nvml, handle)
        if slices is None:
            return Gpu(handle, uuid, (whole,), {uuid: handle}, file)
        return Gpu(
            handle,
            uuid,
            tuple(_slice_of(nvml, whole, name, at) for name, at in slices.items()),
            slices,
            file,
            {name: nvml.nvmlDeviceGetGpuInstanceId(at) for name, at in slices.items()},
        )

    def _silent(self, index: int, error: Exception) -> list[Device]:  # type: ignore[valid-type]
        """What was there when the GPU of this index last answered, as it is now."""
        gpu = self._gpus.get(index)
        fault = f"the driver does not answer for it: {error}"
        known = gpu.devices if gpu is not None else ()
        return [msgspec.structs.replace(d, healthy=False, fault=fault) for d in known]

    def _sample(self, uuid: str, handle: Any) -> Sample | None:
        nvml = self._nvml
        try:
            used_bytes = int(nvml.nvmlDeviceGetMemoryInfo(handle).used)
        except nvml.NVMLError:
            return None
        busy_milli: int | None = None
        processes: tuple[tuple[int, int], ...] = ()
        with contextlib.suppress(nvml.NVMLError):  # a slice has no figure of its own
            busy_milli = int(nvml.nvmlDeviceGetUtilizationRates(handle).gpu) * 10
        with contextlib.suppress(nvml.NVMLError):
            running = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
            processes = tuple((p.pid, p.usedGpuMemory) for p in running if p.usedGpuMemory)
        return Sample(uuid, busy_milli, used_bytes, processes)

    def _tells_of_processes(self, handle: Any) -> bool:
        try:
            self._nvml.nvmlDeviceGetComputeRunningProcesses(handle)
        except self._nvml.NVMLError:
            return False
        return True

    def _islands(self) -> dict[str, str]:
        """For each GPU that NVLink joins to others, the name of what they form. Asked once."""
        whole = {g.uuid: g.handle for g in self._gpus.values() if not g.instances}
        known, islands = self._joined
        if tuple(whole) == known:
            return islands
        first = {uuid: uuid for uuid in whole}
        for one, other in combinations(whole, 2):
            if self._are_joined(whole[one], whole[other]):
                old, new = first[other], first[one]
                first = {uuid: new if head == old else head for uuid, head in first.items()}
        heads = list(first.values())
        order = {uuid: number for number, uuid in enumerate(dict.fromkeys(heads))}
        islands = {u: f"nvlink-{order[h]}" for u, h in first.items() if heads.count(h) > 1}
        self._joined = (tuple(whole), islands)
        return islands

    def _are_joined(self, one: Any, other: Any) -> bool:
        nvml = self._nvml
        try:
            status = nvml.nvmlDeviceGetP2PStatus(one, other, nvml.NVML_P2P_CAPS_INDEX_NVLINK)
        except nvml.NVMLError:
            return False
        return bool(status == nvml.NVML_P2P_STATUS_OK)


def library() -> Any:
    """NVML, initialised; None where there is no driver or no library."""
    found = binding()
    if found is None:
        return None
    try:
        found.nvmlInit()
    except found.NVMLError:
        return None
    return found


def binding() -> Any:
    """The library, as it was loaded; None where it is not installed."""
    try:
        import pynvml
    except ImportError:
        return None
    return pynvml


def text(value: str | bytes) -> str:
    """What the library says, whichever its version says it in."""
    return value.decode() if isinstance(value, bytes) else value


def _slices(nvml: Any, handle: Any) -> dict[str, Any] | None:
    """The MIG slices of a GPU by UUID; None when it is not divided."""
    try:
        is_divided = nvml.nvmlDeviceGetMigMode(handle)[0] == nvml.NVML_DEVICE_MIG_ENABLE
    except nvml.NVMLError:
        return None
    if not is_divided:
        return None
    found: dict[str, Any] = {}
    for number in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        with contextlib.suppress(nvml.NVMLError):  # not every place is taken
            part = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, number)
            found[text(nvml.nvmlDeviceGetUUID(part))] = part
    return found


def _slice_of(nvml: Any, whole: Device, uuid: str, handle: Any) -> Device:
    profile = text(nvml.nvmlDeviceGetName(handle)).rpartition("MIG ")[2]
    return msgspec.structs.replace(
        whole,
        device=uuid,
        memory_bytes=_total(nvml, handle),
        profile=profile,
        parent=whole.device,
    )


def _file(nvml: Any, handle: Any) -> str:
    """Where processes open the GPU; empty where the driver does not tell."""
    try:
        return f"/dev/nvidia{nvml.nvmlDeviceGetMinorNumber(handle)}"
    except nvml.NVMLError:
        return ""


def _total(nvml: Any, handle: Any) -> int:
    return int(nvml.nvmlDeviceGetMemoryInfo(handle).total)

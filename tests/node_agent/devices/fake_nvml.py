"""A library that speaks NVML's functions, constants and errors about GPUs that are made up."""
# ruff: noqa: N802  as the library names them

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

import pynvml

NOT_MIG = 0xFFFFFFFF


@dataclass
class Slice:
    uuid: str
    profile: str
    memory: int
    instance: int


@dataclass
class Gpu:
    uuid: str
    name: str = "NVIDIA H100 80GB HBM3"
    memory: int = 81_559 * 2**20
    used: int = 0
    busy: int = 0
    processes: list[tuple[int, int | None]] | None = field(default_factory=list)
    slices: list[Slice] | None = None
    joined: set[str] = field(default_factory=set)
    remap_failed: bool = False
    recovery: int | None = None
    lost: bool = False
    hidden: bool = False
    supports: int = pynvml.nvmlEventTypeXidCriticalError | pynvml.nvmlEventTypeDoubleBitEccError
    happened: list[tuple[int, int, int]] = field(default_factory=list)

    def xid(self, code: int, instance: int = NOT_MIG) -> None:
        self.happened.append((pynvml.nvmlEventTypeXidCriticalError, code, instance))

    def ecc(self) -> None:
        self.happened.append((pynvml.nvmlEventTypeDoubleBitEccError, 0, NOT_MIG))


class FakeNvml:
    """Stands where the module `pynvml` would."""

    def __init__(self, *gpus: Gpu) -> None:
        self.gpus = list(gpus)

    def __getattr__(self, name: str):
        if name.startswith(("NVML", "nvmlEventType")):
            return getattr(pynvml, name)
        raise AttributeError(name)

    def nvmlDeviceGetCount(self):
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index):
        return self._there(self.gpus[index])

    def nvmlDeviceGetMinorNumber(self, handle):
        if handle.hidden:
            self._refuse(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return self.gpus.index(handle)

    def nvmlDeviceGetUUID(self, handle):
        return self._there(handle).uuid.encode()  # as older versions say it

    def nvmlDeviceGetName(self, handle):
        if isinstance(handle, Slice):
            return f"NVIDIA H100 80GB HBM3 MIG {handle.profile}"
        return self._there(handle).name

    def nvmlDeviceGetMemoryInfo(self, handle):
        used = getattr(self._there(handle), "used", 0)
        return SimpleNamespace(total=handle.memory, used=used, free=handle.memory - used)

    def nvmlDeviceGetUtilizationRates(self, handle):
        if isinstance(handle, Slice):
            self._refuse(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return SimpleNamespace(gpu=self._there(handle).busy, memory=0)

    def nvmlDeviceGetComputeRunningProcesses(self, handle):
        found = getattr(self._there(handle), "processes", [])
        if found is None:
            self._refuse(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return [SimpleNamespace(pid=pid, usedGpuMemory=held) for pid, held in found]

    def nvmlDeviceGetMigMode(self, handle):
        is_on = int(self._there(handle).slices is not None)
        return [is_on, is_on]

    def nvmlDeviceGetMaxMigDeviceCount(self, handle):
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle, index):
        if index >= len(handle.slices):
            self._refuse(pynvml.NVML_ERROR_NOT_FOUND)
        return handle.slices[index]

    def nvmlDeviceGetGpuInstanceId(self, handle):
        return handle.instance

    def nvmlDeviceGetP2PStatus(self, one, other, index):
        is_joined = other.uuid in one.joined or one.uuid in other.joined
        return pynvml.NVML_P2P_STATUS_OK if is_joined else pynvml.NVML_P2P_STATUS_NOT_SUPPORTED

    def nvmlDeviceGetRemappedRows(self, handle):
        return (0, 1, 1, int(self._there(handle).remap_failed))

    def nvmlDeviceGetFieldValues(self, handle, fields):
        self._there(handle)
        known = handle.recovery is not None
        code = pynvml.NVML_SUCCESS if known else pynvml.NVML_ERROR_NOT_SUPPORTED
        value = SimpleNamespace(uiVal=handle.recovery or 0)
        return [SimpleNamespace(nvmlReturn=code, value=value)]

    def nvmlDeviceGetSupportedEventTypes(self, handle):
        return self._there(handle).supports

    def nvmlEventSetCreate(self):
        return SimpleNamespace(gpu=None)

    def nvmlDeviceRegisterEvents(self, handle, types, events):
        if not types:
            self._refuse(pynvml.NVML_ERROR_NOT_SUPPORTED)
        events.gpu = handle

    def nvmlEventSetWait_v2(self, events, timeout_ms):
        assert timeout_ms == 0, "a driver must not wait"
        if not events.gpu.happened:
            self._refuse(pynvml.NVML_ERROR_TIMEOUT)
        kind, data, instance = events.gpu.happened.pop(0)
        return SimpleNamespace(eventType=kind, eventData=data, gpuInstanceId=instance)

    def _there(self, handle):
        if getattr(handle, "lost", False):
            self._refuse(pynvml.NVML_ERROR_GPU_IS_LOST)
        return handle

    def _refuse(self, code):
        raise pynvml.NVMLError(code)

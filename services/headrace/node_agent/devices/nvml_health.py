"""What is wrong with an NVIDIA GPU: what it is like, and what has happened to it.

Rule: a state (a faulty memory row, a recovery that the driver asks for) is a fault for as long as
it lasts; a happening (an XID) is told once. Memory rows that were set aside in time are no fault.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from headrace.node_agent.devices import DRAIN, Trouble, xid

HEARD_MAX = 64  # happenings taken from one GPU at a time
ECC_CODE = 48  # what the catalogue calls an uncorrectable memory error

_RECOVERIES = {
    1: "a reset",
    2: "a restart of the machine",
    3: "an end to its peer traffic",
    4: "a drain and a reset",
    6: "a reset of its bus",
    7: "a restart of the machine",
}  # as the driver advises


class Health:
    """Asks one NVML library about its GPUs."""

    def __init__(self, library: Any) -> None:
        self._nvml = library
        self._events: dict[str, Any] = {}  # a set of its own for each GPU: its sender is then known

    def fault(self, handle: Any) -> str:
        """Why this GPU should take no work; empty when it may."""
        nvml = self._nvml
        with contextlib.suppress(nvml.NVMLError):
            if nvml.nvmlDeviceGetRemappedRows(handle)[3]:
                return "a faulty memory row could not be set aside"
        recovery = self._advised(handle)
        return f"its driver asks for {recovery}" if recovery else ""

    def listen(self, uuid: str, handle: Any) -> None:
        """Begin to take note of what happens to this GPU, once."""
        if uuid in self._events:
            return
        nvml = self._nvml
        wanted = nvml.nvmlEventTypeXidCriticalError | nvml.nvmlEventTypeDoubleBitEccError
        self._events[uuid] = None
        with contextlib.suppress(nvml.NVMLError):
            supported = wanted & nvml.nvmlDeviceGetSupportedEventTypes(handle)
            events = nvml.nvmlEventSetCreate()
            nvml.nvmlDeviceRegisterEvents(handle, supported, events)
            self._events[uuid] = events

    def heard(self, uuid: str) -> Iterator[tuple[Trouble, int]]:
        """What has happened to it, and to which of its slices (a number that none has: to all)."""
        events, nvml = self._events.get(uuid), self._nvml
        if events is None:
            return
        for _ in range(HEARD_MAX):
            try:
                data = nvml.nvmlEventSetWait_v2(events, 0)
            except nvml.NVMLError:  # nothing more has happened
                return
            yield _trouble(nvml, uuid, data), data.gpuInstanceId

    def _advised(self, handle: Any) -> str:
        """What the driver says is to be done about this GPU; drivers before 570 do not say."""
        nvml = self._nvml
        with contextlib.suppress(nvml.NVMLError):
            wanted = [nvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION]
            (value,) = nvml.nvmlDeviceGetFieldValues(handle, wanted)
            if value.nvmlReturn == nvml.NVML_SUCCESS:
                return _RECOVERIES.get(int(value.value.uiVal), "")
        return ""


def _trouble(nvml: Any, uuid: str, data: Any) -> Trouble:
    if data.eventType == nvml.nvmlEventTypeXidCriticalError:
        code = int(data.eventData)
        return Trouble(uuid, code, xid.action_of(code), xid.text_of(code))
    return Trouble(uuid, ECC_CODE, DRAIN, xid.text_of(ECC_CODE))

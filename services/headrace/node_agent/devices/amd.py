"""AMD GPUs as `amdsmi` sees them.

Rule: as for every driver; the library is optional, and what a version of it does not have is left
out. Devices are named as the runtime names them: `GPU-` and the serial number.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import msgspec

from headrace.events.gangs import Share
from headrace.events.nodes import Device
from headrace.node_agent.devices import DRAIN, Sample, Trouble, host
from headrace.node_agent.devices.models import model_of

MIB = 2**20  # the library counts memory in these


class AmdDevices:
    """The machine's GPUs. `library` is `amdsmi`, initialised."""

    can_watch = True

    def __init__(self, library: Any) -> None:
        self._smi = library
        self.cpu_milli, self.memory_bytes = host.cpu_milli(), host.memory_bytes()
        self._handles: dict[str, Any] = {}
        self._known: dict[int, Device] = {}
        self._files: dict[str, str] = {}
        self._uncorrected: dict[str, int] = {}

    def list(self) -> tuple[Device, ...]:
        for index, handle in enumerate(self._all()):
            try:
                device = self._read(index, handle)
                self._handles[device.device] = handle
                self._note_file(device.device, handle)
            except self._smi.AmdSmiException as error:
                if index not in self._known:
                    continue
                fault = f"the driver does not answer for it: {error}"
                before = self._known[index]
                device = msgspec.structs.replace(before, healthy=False, fault=fault)
            self._known[index] = device
        self._note_islands()
        return tuple(self._known[index] for index in sorted(self._known))

    def sample(self, held_milli: dict[str, int]) -> tuple[Sample, ...]:
        del held_milli  # the driver knows better
        samples = (self._sample(name, handle) for name, handle in self._handles.items())
        return tuple(sample for sample in samples if sample is not None)

    def watch(self) -> tuple[Trouble, ...]:
        found = []
        for name, handle in self._handles.items():
            with contextlib.suppress(self._smi.AmdSmiException):
                count = _number(self._smi.amdsmi_get_gpu_total_ecc_count(handle), _UNCORRECTED)
                more = count - self._uncorrected.get(name, count)
                self._uncorrected[name] = count
                if more > 0:
                    text = f"{more} memory errors that cannot be corrected"
                    found.append(Trouble(name, 0, DRAIN, text))
        return tuple(found)

    def bind(self, shares: Sequence[Share], _folder: str = "", /) -> dict[str, str]:
        return {"ROCR_VISIBLE_DEVICES": ",".join(share.device for share in shares)}

    def files(self) -> dict[str, str]:
        return dict(self._files)

    def _all(self) -> Sequence[Any]:
        try:
            return list(self._smi.amdsmi_get_processor_handles())
        except self._smi.AmdSmiException:
            return list(self._handles.values())

    def _read(self, index: int, handle: Any) -> Device:
        about = self._smi.amdsmi_get_gpu_asic_info(handle)
        memory = self._smi.amdsmi_get_gpu_vram_usage(handle)
        memory_bytes = _number(memory, "vram_total") * MIB
        serial = str(about["asic_serial"]).lower().removeprefix("0x")
        return Device(
            device=f"GPU-{serial}",
            index=index,
            model=model_of(str(about["market_name"]), memory_bytes),
            memory_bytes=memory_bytes,
            kind="amd",
            vendor="amd",
        )

    def _sample(self, name: str, handle: Any) -> Sample | None:
        smi = self._smi
        try:
            used_bytes = _number(smi.amdsmi_get_gpu_vram_usage(handle), "vram_used") * MIB
        except smi.AmdSmiException:
            return None
        busy_milli: int | None = None
        processes: tuple[tuple[int, int], ...] = ()
        with contextlib.suppress(smi.AmdSmiException):
            busy = smi.amdsmi_get_gpu_activity(handle).get("gfx_activity")
            busy_milli = busy * 10 if isinstance(busy, int) else None
        with contextlib.suppress(smi.AmdSmiException):
            running = smi.amdsmi_get_gpu_process_list(handle)
            held = (
                (_number(p, "pid"), _number(p.get("memory_usage"), "vram_mem")) for p in running
            )
            processes = tuple((pid, held_bytes) for pid, held_bytes in held if held_bytes)
        return Sample(name, busy_milli, used_bytes, processes)

    def _note_file(self, name: str, handle: Any) -> None:
        """Where it is rendered on, if this version of the library tells; all share `/dev/kfd`."""
        with contextlib.suppress(self._smi.AmdSmiException, AttributeError):
            number = _number(self._smi.amdsmi_get_gpu_enumeration_info(handle), "drm_render")
            if number:
                self._files[name] = f"/dev/dri/renderD{number}"

    def _note_islands(self) -> None:
        """Which GPUs xGMI joins: the first that each of them is joined to names them."""
        handles = {d.device: self._handles[d.device] for d in self._known.values() if d.healthy}
        joined: dict[str, str] = {}
        for one, other in combinations(handles, 2):
            with contextlib.suppress(self._smi.AmdSmiException):
                link = self._smi.amdsmi_topo_get_link_type(handles[one], handles[other])
                if link["type"] == self._smi.AmdSmiLinkType.AMDSMI_LINK_TYPE_XGMI:
                    joined[other] = joined.setdefault(one, one)
        order = {head: number for number, head in enumerate(dict.fromkeys(joined.values()))}
        for index, device in self._known.items():
            if device.device in joined:
                island = f"xgmi-{order[joined[device.device]]}"
                self._known[index] = msgspec.structs.replace(device, island=island)


def library() -> Any:
    """`amdsmi`, initialised; None where there is no driver or no library."""
    try:
        import amdsmi
    except (ImportError, KeyError, OSError):  # it looks for its own library while it is loaded
        return None
    try:
        amdsmi.amdsmi_init()
    except amdsmi.AmdSmiException:
        return None
    return amdsmi


_UNCORRECTED = "uncorrectable_count"


def _number(about: Any, name: str) -> int:
    """A figure of what the library says; 0 where it says `N/A`."""
    value = about.get(name, 0) if isinstance(about, dict) else 0
    return value if isinstance(value, int) else 0

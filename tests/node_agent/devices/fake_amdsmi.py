"""A library that speaks `amdsmi`'s functions and errors about GPUs that are made up."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace


class AmdSmiException(Exception):
    """As the library names it."""


@dataclass
class Gpu:
    serial: str
    name: str = "AMD Instinct MI300X"
    memory_mib: int = 196_592
    used_mib: int = 0
    busy: int | str = 0
    processes: list[tuple[int, int]] = field(default_factory=list)
    uncorrected: int | str = 0
    lost: bool = False


class FakeAmdSmi:
    """Stands where the module `amdsmi` would."""

    AmdSmiException = AmdSmiException
    AmdSmiLinkType = SimpleNamespace(AMDSMI_LINK_TYPE_PCIE=1, AMDSMI_LINK_TYPE_XGMI=2)

    def __init__(self, *gpus: Gpu, xgmi: bool = True) -> None:
        self.gpus, self.xgmi = list(gpus), xgmi

    def amdsmi_get_processor_handles(self):
        return self.gpus

    def amdsmi_get_gpu_asic_info(self, handle):
        self._there(handle)
        return {"market_name": handle.name, "asic_serial": f"0x{handle.serial.upper()}"}

    def amdsmi_get_gpu_enumeration_info(self, handle):
        return {"drm_render": 120 + self.gpus.index(handle)}

    def amdsmi_get_gpu_vram_usage(self, handle):
        self._there(handle)
        return {"vram_total": handle.memory_mib, "vram_used": handle.used_mib}

    def amdsmi_get_gpu_activity(self, handle):
        self._there(handle)
        return {"gfx_activity": handle.busy, "umc_activity": 0, "mm_activity": "N/A"}

    def amdsmi_get_gpu_process_list(self, handle):
        self._there(handle)
        return [
            {"pid": pid, "name": "python", "memory_usage": {"vram_mem": held}}
            for pid, held in handle.processes
        ]

    def amdsmi_get_gpu_total_ecc_count(self, handle):
        self._there(handle)
        return {"correctable_count": 7, "uncorrectable_count": handle.uncorrected}

    def amdsmi_topo_get_link_type(self, one, other):
        link = self.AmdSmiLinkType
        kind = link.AMDSMI_LINK_TYPE_XGMI if self.xgmi else link.AMDSMI_LINK_TYPE_PCIE
        return {"hops": 1, "type": kind}

    def _there(self, handle):
        if handle.lost:
            raise AmdSmiException("AMDSMI_STATUS_NOT_FOUND")

"""GPUs that are not there, so that everything else can run anywhere: `simulated:8xH100-80GB`.

Rule: the same node name and index give the same UUID, on every machine and for ever.
"""

from __future__ import annotations

import hashlib
import re

from headrace.events.nodes import Device
from headrace.node_agent.devices import Samples

CPU_MILLI_PER_GPU = 12_000
MEMORY_BYTES_PER_GPU = 128_000_000_000
COUNT_MAX = 1_024

_SPEC = re.compile(r"^simulated:([0-9]{1,4})x([A-Za-z0-9]+)-([0-9]{1,4})GB$")


class SimulatedDevices:
    """As many GPUs as asked for. Raises `ValueError` for a specification that is none."""

    enforcement = "simulated"

    def __init__(self, spec: str, node: str) -> None:
        match = _SPEC.match(spec)
        if match is None or int(match[1]) > COUNT_MAX:
            raise ValueError(f"{spec!r} is not like simulated:8xH100-80GB")
        count, model, gigabytes = int(match[1]), f"{match[2]}-{match[3]}GB", int(match[3])
        self._memory_bytes = gigabytes * 2**30  # drivers count in binary and come out a bit above
        self.cpu_milli = CPU_MILLI_PER_GPU * count
        self.memory_bytes = MEMORY_BYTES_PER_GPU * count
        self._devices = tuple(
            Device(
                device=uuid_of(node, index),
                index=index,
                model=model,
                memory_bytes=self._memory_bytes,
                kind="simulated",
            )
            for index in range(count)
        )

    def inventory(self) -> tuple[Device, ...]:
        return self._devices

    def samples(self, held_milli: dict[str, int]) -> Samples:
        held = ((d.device, min(1000, held_milli.get(d.device, 0))) for d in self._devices)
        return tuple((name, milli, self._memory_bytes * milli // 1000) for name, milli in held)


def uuid_of(node: str, index: int) -> str:
    """The UUID of a node's simulated GPU."""
    digits = hashlib.sha256(f"headrace/{node}/gpu/{index}".encode()).hexdigest()
    parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:32])
    return f"GPU-{'-'.join(parts)}"

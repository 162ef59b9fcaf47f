"""What has arrived so far: the statistics from which a policy expects what comes next.

Rule: counts and sums only, of what has arrived and of nothing else, so that the same log gives the
same expectation. They are learned from when the number of arrivals has grown sixteenfold: to
learn is to rank all nodes anew.
"""

from __future__ import annotations

import msgspec

from headrace.scheduling.banks import DEVICE_MILLI


class Arrivals(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Sums over everything that arrived. `devices` counts the GPUs asked for by how many
    thousandths of each.
    """

    number: int = 0
    cpu_milli: int = 0
    gpu_milli: int = 0
    devices: dict[int, int] = {}

    def add(self, gpu_milli: int, cpu_milli: int) -> None:
        """One worker arrived: it asks for a share of one GPU, or whole ones, or none."""
        self.number += 1
        self.cpu_milli += cpu_milli
        self.gpu_milli += gpu_milli
        whole, share = divmod(gpu_milli, DEVICE_MILLI)
        for milli, count in ((DEVICE_MILLI, whole), (share, 1)):
            if milli and count:
                self.devices[milli] = self.devices.get(milli, 0) + count

    @property
    def tell(self) -> bool:
        """Whether it is time to learn from them: their number is a power of sixteen."""
        bits = self.number.bit_length()
        return bits % 4 == 1 and self.number == 1 << (bits - 1)

"""What has arrived so far: the statistics from which a policy expects what comes next.

Rule: counts and sums only, of what has arrived and of nothing else, so that the same log gives the
same expectation. They are learned from when the number of arrivals has grown sixteenfold: to
learn is to rank all nodes anew.
"""

from __future__ import annotations

import msgspec

from headrace.scheduling.banks import DEVICE_MILLI

SHARE_MILLI = 100  # what a request has of one GPU is rounded up to this
CPU_MILLI = 2000  # and its cores to this
GPUS_MAX = 16  # a request for more counts as one for so many
CPU_MILLI_MAX = 128_000  # likewise


class Arrivals(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Counts of everything that arrived. `devices`: the GPUs asked for, by how many thousandths of
    each. `requests`: who asked for GPUs, by the thousandths of GPUs and of cores, both rounded up;
    at most 25 × 65 counts, whatever is asked for.
    """

    number: int = 0
    devices: dict[int, int] = {}
    requests: dict[int, dict[int, int]] = {}

    def add(self, gpu_milli: int, cpu_milli: int) -> None:
        """One worker arrived: it asks for a share of one GPU, or whole ones, or none."""
        self.number += 1
        if not gpu_milli:
            return
        whole, share = divmod(gpu_milli, DEVICE_MILLI)
        for milli, count in ((DEVICE_MILLI, whole), (share, 1)):
            if milli and count:
                self.devices[milli] = self.devices.get(milli, 0) + count
        grain = SHARE_MILLI if gpu_milli <= DEVICE_MILLI else DEVICE_MILLI
        gpus = min(-(-gpu_milli // grain) * grain, GPUS_MAX * DEVICE_MILLI)
        cores = min(-(-cpu_milli // CPU_MILLI) * CPU_MILLI, CPU_MILLI_MAX)
        counts = self.requests.setdefault(gpus, {})
        counts[cores] = counts.get(cores, 0) + 1

    def copy(self) -> Arrivals:
        """The same counts, which do not grow when these do."""
        requests = {milli: dict(counts) for milli, counts in self.requests.items()}
        return msgspec.structs.replace(self, devices=dict(self.devices), requests=requests)

    @property
    def tell(self) -> bool:
        """Whether it is time to learn from them: their number is a power of sixteen."""
        bits = self.number.bit_length()
        return bits % 4 == 1 and self.number == 1 << (bits - 1)

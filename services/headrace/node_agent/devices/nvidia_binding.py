"""How a process is shown NVIDIA devices, there or simulated."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.events.gangs import Share


def visible(shares: Sequence[Share]) -> dict[str, str]:
    """The environment in which it sees these and no others; by UUID, for indices move."""
    return {
        "CUDA_VISIBLE_DEVICES": ",".join(share.device for share in shares),
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }

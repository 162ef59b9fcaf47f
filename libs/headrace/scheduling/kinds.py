"""Which GPU is of which kind.

Rule: `H100` names every `H100-…`; a marketed size matches within a few percent of what the driver
says; a MIG slice is of its profile and of no other kind.
"""

from __future__ import annotations

from typing import Protocol

from headrace.events.asked import Accelerator

SIZE_TOLERANCE_PERCENT = 8


class Gpu(Protocol):
    """Anything that tells what GPU it is."""

    @property
    def model(self) -> str: ...

    @property
    def memory_bytes(self) -> int: ...

    @property
    def profile(self) -> str: ...


def is_kind(gpu: Gpu, accelerator: Accelerator) -> bool:
    """Whether this GPU, or slice of one, is what was asked for."""
    if gpu.profile.lower() != accelerator.profile.lower():
        return False
    if accelerator.model and not is_model(gpu.model, accelerator.model):
        return False
    low, high = accelerator.memory_bytes_min, accelerator.memory_bytes_max
    if gpu.memory_bytes * (100 + SIZE_TOLERANCE_PERCENT) < low * 100:
        return False
    return not high or gpu.memory_bytes * (100 - SIZE_TOLERANCE_PERCENT) <= high * 100


def is_model(model: str, name: str) -> bool:
    """Whether a GPU of this model is what `name` names."""
    have, wanted = model.lower(), name.lower()
    return have == wanted or have.startswith(f"{wanted}-")

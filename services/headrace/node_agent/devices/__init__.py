"""The node's GPUs: what there is, how busy it is."""

from __future__ import annotations

from typing import Protocol

from headrace.events.nodes import Device

Samples = tuple[tuple[str, int, int], ...]
"""For each device: its UUID, how busy it was in thousandths, bytes of its memory in use."""


class Devices(Protocol):
    """One way to find GPUs. `kind` is nvml, simulated or none."""

    @property
    def enforcement(self) -> str:
        """What keeps a worker to its share of a device; see `events.attempts`."""
        ...

    @property
    def cpu_milli(self) -> int:
        """Thousandths of CPU cores that workers may use."""
        ...

    @property
    def memory_bytes(self) -> int:
        """Memory that workers may use."""
        ...

    def inventory(self) -> tuple[Device, ...]:
        """The GPUs as they are now, healthy or not."""
        ...

    def samples(self, held_milli: dict[str, int]) -> Samples:
        """How busy each GPU is. `held_milli` is how much of each is held by running workers."""
        ...

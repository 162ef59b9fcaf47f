"""The node's devices: what there is, how busy it is, what is wrong with it, who may see it.

Rule: a driver speaks for one kind of hardware through one library, and answers without waiting. A
device its library does not answer for stays in the list, unhealthy. What to do about a device is
decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from headrace.events.gangs import Share
from headrace.events.nodes import Device

DRAIN = "drain"  # nothing new goes there, and what is there starts anew elsewhere
RESTART = "restart"  # what is there starts anew; the device stays
IGNORE = "ignore"  # nobody but the program itself is concerned


class Sample(NamedTuple):
    """One device at one moment: how busy in thousandths (None: its library does not say, as for MIG
    slices), bytes of its memory in use, and how much of that each process holds, as far as the
    library says (pid, bytes).
    """

    device: str
    busy_milli: int | None
    used_bytes: int
    processes: tuple[tuple[int, int], ...] = ()


class Trouble(NamedTuple):
    """Something that went wrong on a device: the vendor's code (0: it has none), what is to be done
    (drain, restart or ignore) and one line for people.
    """

    device: str
    code: int
    action: str
    text: str


class Devices(Protocol):
    """One driver."""

    @property
    def cpu_milli(self) -> int:
        """Thousandths of CPU cores that workers may use."""
        ...

    @property
    def memory_bytes(self) -> int:
        """Memory that workers may use."""
        ...

    @property
    def can_watch(self) -> bool:
        """Whether samples tell how much memory each process holds."""
        ...

    def list(self) -> tuple[Device, ...]:
        """The devices as they are now, healthy or not."""
        ...

    def sample(self, held_milli: dict[str, int]) -> tuple[Sample, ...]:
        """How each device that answers is used. `held_milli` is how much of each is booked."""
        ...

    def watch(self) -> tuple[Trouble, ...]:
        """What went wrong since this was asked last."""
        ...

    def bind(self, shares: Sequence[Share], folder: str = "", /) -> dict[str, str]:
        """The environment in which a process sees these devices, in order, and no others. `folder`
        is its attempt's.
        """
        ...

    def files(self) -> dict[str, str]:
        """By device the file in /dev without which a process cannot use it; a slice has its GPU's.
        A device that is missing here is not kept from anybody.
        """
        ...

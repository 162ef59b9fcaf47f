"""Processes that leave their GPUs and come back: what is asked of a driver that can do it.

Rule: a driver does one thing to one process and says whether it worked; in which order, and what
happens when it did not, is `ladder`'s to say.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

CHECKPOINT, MIGRATE, IPC = "checkpoint", "migrate", "ipc"  # what a probe may find
RUNNING, LOCKED, CHECKPOINTED, FAILED = "running", "locked", "checkpointed", "failed"


class DriverError(Exception):
    """The driver refused, or failed; the message says at what."""


class Driver(Protocol):
    """What moves a process off its GPUs and back. All calls may take seconds."""

    def probe(self) -> tuple[str, ...]:
        """What it was found to do here, by trying: `CHECKPOINT`, `MIGRATE`, `IPC`."""
        ...

    def state(self, pid: int) -> str | None:
        """How the process stands; None for one that uses no GPU or has gone."""
        ...

    def lock(self, pid: int) -> None:
        """Let it finish what it does on its GPUs, and begin nothing more. Raises `DriverError`."""
        ...

    def checkpoint(self, pid: int) -> None:
        """Move what a locked process has on its GPUs to memory. Raises `DriverError`."""
        ...

    def restore(self, pid: int, devices: Mapping[str, str]) -> None:
        """Move it back, from each device to the one it is mapped to; it stays locked. Raises
        `DriverError`.
        """
        ...

    def unlock(self, pid: int) -> None:
        """Let a locked process go on. Raises `DriverError`."""
        ...

    def memory_bytes(self, pid: int) -> int:
        """What the process has on its GPUs; 0 when that is not known."""
        ...

    def close(self) -> None:
        """It is not needed for now."""
        ...


class NoDriver:
    """Nothing here can move a running process off its GPU."""

    def probe(self) -> tuple[str, ...]:
        return ()

    def state(self, pid: int) -> str | None:
        del pid
        return None

    def lock(self, pid: int) -> None:
        raise DriverError(f"nothing here can lock process {pid}")

    def checkpoint(self, pid: int) -> None:
        raise DriverError(f"nothing here can checkpoint process {pid}")

    def restore(self, pid: int, devices: Mapping[str, str]) -> None:
        del devices
        raise DriverError(f"nothing here can restore process {pid}")

    def unlock(self, pid: int) -> None:
        raise DriverError(f"nothing here can unlock process {pid}")

    def memory_bytes(self, pid: int) -> int:
        del pid
        return 0

    def close(self) -> None:
        pass

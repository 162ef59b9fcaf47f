"""Devices that no library knows, as a file describes them.

Rule: the file is all there is to know: nothing is measured, and nothing keeps a worker to a share.

    model = "TPUv4"                      # as job files name it, without the size
    count = 4
    memory = "32GB"                      # of each
    environment = "TPU_VISIBLE_CHIPS"    # gets the numbers of a worker's devices, with commas
    file = "/dev/accel{}"                # of the device of each number; other jobs are kept from it
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from headrace.events.gangs import Share
from headrace.events.nodes import Device
from headrace.node_agent.devices import Sample, Trouble, host

COUNT_MAX = 1_024
GB = 10**9

_MEMORY = re.compile(r"^([0-9]{1,5})GB$")
_NAME = re.compile(r"^[A-Z_][A-Z0-9_]{0,62}$")
_FILE = re.compile(r"^(|/[^{}]*\{\}[^{}]*)$")
_MODEL = re.compile(r"^[A-Za-z0-9]{1,40}$")


class Described(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the file says."""

    model: str
    count: int
    memory: str
    environment: str
    vendor: str = ""
    file: str = ""


class StaticDevices:
    """As many devices as described; none when nothing is."""

    can_watch = False

    def __init__(self, described: Described | None, node: str) -> None:
        self.cpu_milli, self.memory_bytes = host.cpu_milli(), host.memory_bytes()
        self._environment = described.environment if described is not None else ""
        self._file = described.file if described is not None else ""
        self._devices = _devices(described, node) if described is not None else ()

    def list(self) -> tuple[Device, ...]:
        return self._devices

    def sample(self, held_milli: dict[str, int]) -> tuple[Sample, ...]:
        return tuple(Sample(d.device, held_milli.get(d.device, 0), 0) for d in self._devices)

    def watch(self) -> tuple[Trouble, ...]:
        return ()

    def bind(self, shares: Sequence[Share], _folder: str = "", /) -> dict[str, str]:
        numbers = {device.device: str(device.index) for device in self._devices}
        if not self._environment:
            return {}
        return {self._environment: ",".join(numbers.get(s.device, "") for s in shares)}

    def files(self) -> dict[str, str]:
        if not self._file:
            return {}
        return {d.device: self._file.replace("{}", str(d.index)) for d in self._devices}


def read(path: str) -> Described:
    """What the file at `path` describes. Raises `ValueError` with one line naming what is wrong."""
    try:
        said = msgspec.convert(tomllib.loads(Path(path).read_text()), Described)
    except OSError as error:
        raise ValueError(f"devices cannot be read from {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise ValueError(f"{path}: {error}") from None
    for name, pattern, like in (
        ("memory", _MEMORY, "32GB"),
        ("environment", _NAME, "TPU_VISIBLE_CHIPS"),
        ("model", _MODEL, "TPUv4"),
        ("file", _FILE, "/dev/accel{}"),
    ):
        value = getattr(said, name)
        if not pattern.match(value):
            raise ValueError(f"{path}: {name} = {value!r} is not like {like}")
    if not 0 <= said.count <= COUNT_MAX:
        raise ValueError(f"{path}: count = {said.count} is not between 0 and {COUNT_MAX}")
    return said


def _devices(said: Described, node: str) -> tuple[Device, ...]:
    return tuple(
        Device(
            device=f"static-{node}-{index}",
            index=index,
            model=f"{said.model}-{said.memory}",
            memory_bytes=int(said.memory.removesuffix("GB")) * GB,
            kind="static",
            vendor=said.vendor,
        )
        for index in range(said.count)
    )

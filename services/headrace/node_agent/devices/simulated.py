"""GPUs that are not there, so that everything else can run anywhere: `simulated:8xH100-80GB`.

Rule: the same node name and index give the same UUID, on every machine and for ever. What happens
to them is told by files. A worker announces what it holds by writing the bytes into
`$HEADRACE_SIMULATED_GPUS/<device>.<namespace>.<pid>`, where the namespace is what `/proc/self/ns/pid`
says, since jobs count their processes anew. That folder is its attempt's alone, and what is announced
there counts for the attempt's own processes and its own devices only. The rest is told in the node's
folder `simulated`, which only the agent's account enters: trouble is a line `<device> <XID code>`
added to `xids`, a device is faulty as long as `<device>.fault` says why, and what a process of no job
holds is announced there too.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from headrace.events.gangs import Share
from headrace.events.nodes import Device
from headrace.node_agent import folders
from headrace.node_agent.devices import Sample, Trouble, nvidia_binding, xid
from headrace.node_agent.supervision import kernel
from headrace.node_agent.supervision.beneath import Folder
from headrace.node_agent.supervision.protocol import REPORTS

CPU_MILLI_PER_GPU = 12_000
MEMORY_BYTES_PER_GPU = 128_000_000_000
COUNT_MAX = 1_024
FOLDER = "simulated"  # in the node's
FOLDER_VARIABLE = "HEADRACE_SIMULATED_GPUS"
NAMES_MAX = 1_024  # in a folder where processes announce
BYTES_MAX = 65_536  # read of what is announced at a time
SAID_BYTES_MAX = 200  # of one file
STATUS_BYTES_MAX = 8_192  # of a process
CLOCKS_APART_NS = (
    100_000_000  # between the start of a process and the time of a file it has written
)

_TICKS = os.sysconf("SC_CLK_TCK")  # a second
_SPEC = re.compile(r"^simulated:([0-9]{1,4})x([A-Za-z0-9]+)-([0-9]{1,4})GB$")
_HELD = re.compile(r"^(GPU-[0-9a-f-]+)\.(pid:\[[0-9]{1,10}\]\.[0-9]{1,10})$")


class _Announcers(NamedTuple):
    """An attempt's devices, and the pids of its living processes."""

    devices: frozenset[str]
    pids: frozenset[int]

    def may_announce(self, device: str, pid: int) -> bool:
        return device in self.devices and pid in self.pids


class SimulatedDevices:
    """As many GPUs as asked for. Raises `ValueError` for a specification that is none. Without a
    folder of the node nothing is announced: a device holds what is booked on it.
    """

    def __init__(self, spec: str, node: str, node_dir: Path | None = None) -> None:
        match = _SPEC.match(spec)
        if match is None or int(match[1]) > COUNT_MAX:
            raise ValueError(f"{spec!r} is not like simulated:8xH100-80GB")
        count, model, gigabytes = int(match[1]), f"{match[2]}-{match[3]}GB", int(match[3])
        self._memory_bytes = gigabytes * 2**30  # drivers count in binary and come out a bit above
        self.cpu_milli = CPU_MILLI_PER_GPU * count
        self.memory_bytes = MEMORY_BYTES_PER_GPU * count
        self._node_dir = node_dir
        self._folder = node_dir / FOLDER if node_dir is not None else None
        self.can_watch = node_dir is not None
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
        if self._folder is not None:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._folder.chmod(0o700)  # no job may say that a device is faulty
        self._xids_read = self._xids_size()  # what happened before is over
        self._happened: list[tuple[str, int]] = []

    def list(self) -> tuple[Device, ...]:
        names = self._names()
        return tuple(
            self._as_it_is(d) if f"{d.device}.fault" in names else d for d in self._devices
        )

    def sample(self, held_milli: dict[str, int]) -> tuple[Sample, ...]:
        announced = self._announced()
        samples = []
        for device in self._devices:
            milli = min(1000, held_milli.get(device.device, 0))
            processes = announced.get(device.device, ())
            used_bytes = sum(held_bytes for _, held_bytes in processes)
            booked_bytes = self._memory_bytes * milli // 1000
            samples.append(Sample(device.device, milli, used_bytes or booked_bytes, processes))
        return tuple(samples)

    def watch(self) -> tuple[Trouble, ...]:
        happened, self._happened = [*self._happened, *self._announced_xids()], []
        return tuple(
            Trouble(d, code, xid.action_of(code), xid.text_of(code)) for d, code in happened
        )

    def happen(self, device: str, code: int) -> None:
        """Have its driver tell this XID."""
        self._happened.append((device, code))

    def bind(self, shares: Sequence[Share], folder: str = "", /) -> dict[str, str]:
        told = {FOLDER_VARIABLE: f"{folder}/{REPORTS}"} if folder and self.can_watch else {}
        return nvidia_binding.visible(shares) | told

    def files(self) -> dict[str, str]:
        return {}

    def _announced_xids(self) -> Sequence[tuple[str, int]]:
        if self._folder is None:
            return []
        try:
            with Folder.at(self._folder) as folder, os.fdopen(folder.regular("xids"), "rb") as file:
                file.seek(self._xids_read)
                lines = file.read(BYTES_MAX).rpartition(b"\n")[0]
        except OSError:
            return []
        self._xids_read += len(lines) + 1 if lines else 0
        pairs = (line.split() for line in lines.decode("utf-8", "replace").splitlines())
        return [(p[0], int(p[1])) for p in pairs if len(p) == 2 and p[1].isdecimal()]

    def _xids_size(self) -> int:
        with contextlib.suppress(OSError):
            return os.lstat(self._folder / "xids").st_size if self._folder is not None else 0
        return 0

    def _as_it_is(self, device: Device) -> Device:
        assert self._folder is not None  # it was read just now
        fault = "it is said to be faulty"
        with contextlib.suppress(OSError):
            fault = _said(self._folder, f"{device.device}.fault").strip() or fault
        return msgspec.structs.replace(device, healthy=False, fault=fault)

    def _names(self) -> frozenset[str]:
        if self._folder is None:
            return frozenset()
        with contextlib.suppress(OSError):
            return frozenset(os.listdir(self._folder))
        return frozenset()

    def _announced(self) -> dict[str, tuple[tuple[int, int], ...]]:
        """What living processes say they hold, by device."""
        held: dict[str, tuple[tuple[int, int], ...]] = {}
        if self._folder is None or self._node_dir is None:
            return held
        living: dict[str, int] = {}
        for place, attempt in ((self._folder, None), *_attempts(self._node_dir)):
            found = _announcements(place)
            if not found:
                continue
            living = living or _living()
            own = None if attempt is None else _of_attempt(attempt)
            for match in found:
                device, pid = match[1], living.get(match[2], 0)
                if not pid or (own is not None and not own.may_announce(device, pid)):
                    continue
                if not _is_older(place / match[0], pid):
                    with contextlib.suppress(OSError, ValueError):
                        held_bytes = int(_said(place, match[0])[:20])
                        held[device] = (*held.get(device, ()), (pid, held_bytes))
        return held


def _attempts(node_dir: Path) -> Iterator[tuple[Path, Path]]:
    """Where each attempt announces, and its folder."""
    with contextlib.suppress(OSError):
        for _, attempt in folders.keys_in(node_dir):
            yield attempt / REPORTS, attempt


def _of_attempt(attempt: Path) -> _Announcers:
    """Who counts in the folder of an attempt: nobody after its end."""
    intent = folders.read_intent(attempt)
    if intent is None:
        return _Announcers(frozenset(), frozenset())
    devices = frozenset(share.device for share in intent.shares)
    return _Announcers(devices, frozenset(folders.processes_of(attempt)))


def _announcements(place: Path) -> list[re.Match[str]]:
    """The names there under which processes say what they hold."""
    with contextlib.suppress(OSError), Folder.at(place) as folder:
        return [match for name in sorted(folder.names(NAMES_MAX)) if (match := _HELD.match(name))]
    return []


def _is_older(file: Path, pid: int) -> bool:
    """Whether another process has written it: numbers of namespaces are soon used again."""
    try:
        written_ns = os.lstat(file).st_mtime_ns
    except OSError:
        return True
    return time.time_ns() - written_ns > _age_ns(pid) + CLOCKS_APART_NS


def _age_ns(pid: int) -> int:
    """For how long the process has been there."""
    return kernel.boottime_ns() - kernel.start_time(pid) * 1_000_000_000 // _TICKS


def _living() -> dict[str, int]:
    """The pids of living processes, each by its namespace and its number there."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            namespace = os.readlink(f"/proc/{pid}/ns/pid")
            status = kernel.read(f"/proc/{pid}/status", STATUS_BYTES_MAX)
            numbers = status.partition(b"\nNSpid:")[2].partition(b"\n")[0].split()
            found[f"{namespace}.{int(numbers[-1])}"] = int(pid)
    return found


def _said(folder: Path, name: str) -> str:
    """What a file says that any job may have written. Raises `OSError`."""
    with Folder.at(folder) as opened:
        return opened.read(name, SAID_BYTES_MAX).decode("utf-8", "replace")


def uuid_of(node: str, index: int) -> str:
    """The UUID of a node's simulated GPU."""
    digits = hashlib.sha256(f"headrace/{node}/gpu/{index}".encode()).hexdigest()
    parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:32])
    return f"GPU-{'-'.join(parts)}"

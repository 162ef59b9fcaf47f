"""Finds devices for a gang: all workers at once or nothing.

Rule: workers go to different nodes; accelerators are tried in the job's order of preference and
never mixed inside a gang; whole GPUs are wholly free ones, a share lies on one device and packs
onto devices that are shared already.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from headrace.events.gangs import Share, Worker
from headrace.events.jobs import Accelerator, Gang
from headrace.scheduling.cluster import DEVICE_MILLI, Booking, Device, Node, Scratch

SIZE_TOLERANCE_PERCENT = 8  # a marketed size matches within this of the driver's figure

TOUCHED_MAX = 20_000  # changes remembered before everything is ranked anew
KINDS_MAX = 256  # kinds of workers whose ranking is kept

_ANY = Accelerator(milli=0)
_Key = tuple[tuple[int, ...], str]


class Fitting:
    """Fits gangs into one `Scratch`, remembering how nodes rank for each kind of worker.

    After `scratch.take` or `give`, and after `rebase`, only the touched nodes are ranked again.
    """

    def __init__(self, scratch: Scratch, policy: str = "binpack") -> None:
        del policy  # the only one there is for as long as this is used
        self.scratch = scratch
        self._ranked: dict[tuple[object, ...], _Ranked] = {}

    def rebase(self, base: Mapping[str, Node], changed: Iterable[str]) -> None:
        """Begin a new trial on `base`, in which `changed` nodes differ from the last base."""
        touched = self.scratch.touched
        touched += self.scratch.copied()
        touched += changed
        if len(touched) > TOUCHED_MAX or len(self._ranked) > KINDS_MAX:
            self._ranked.clear()
            touched.clear()
        self.scratch = Scratch(base, touched)

    def fit(self, gang: Gang) -> Booking | None:
        """Where the gang can run now, or None. Books nothing."""
        for accelerator in gang.accelerators or (_ANY,):
            workers = self._workers(gang, accelerator)
            if workers is not None:
                return Booking(
                    workers=workers, cpu_milli=gang.cpu_milli, memory_bytes=gang.memory_bytes
                )
        return None

    def take(self, booking: Booking) -> None:
        """Book what was found."""
        self.scratch.take(booking)

    def _workers(self, gang: Gang, accelerator: Accelerator) -> tuple[Worker, ...] | None:
        kind = (accelerator, gang.gpu_memory_bytes, gang.cpu_milli, gang.memory_bytes)
        ranked = self._ranked.get(kind)
        if ranked is None:
            ranked = self._ranked[kind] = _Ranked(self.scratch, gang, accelerator)
        names = ranked.best(self.scratch, gang.nodes)
        if len(names) < gang.nodes:
            return None
        workers: list[Worker] = []
        for rank, name in enumerate(names):
            node = self.scratch.node(name)
            shares = shares_on(node, gang, accelerator)
            assert shares is not None  # it was ranked because it fits
            workers.append(Worker(rank=rank, node=name, address=node.address, devices=shares))
        return tuple(workers)


class _Ranked:
    """The nodes that fit one kind of worker, best first."""

    def __init__(self, scratch: Scratch, gang: Gang, accelerator: Accelerator) -> None:
        self._gang, self._accelerator = gang, accelerator
        self._seen = len(scratch.touched)
        keys = ((name, self._key(scratch.node(name))) for name in scratch.names())
        self._keys = {name: key for name, key in keys if key is not None}
        self._order = sorted(self._keys.values())

    def best(self, scratch: Scratch, count: int) -> list[str]:
        """The names of up to `count` nodes."""
        touched = scratch.touched
        for name in dict.fromkeys(touched[self._seen :]):
            self._again(name, scratch.node(name))
        self._seen = len(touched)
        return [key[-1] for key in self._order[:count]]

    def _again(self, name: str, node: Node) -> None:
        old = self._keys.pop(name, None)
        if old is not None:
            del self._order[bisect_left(self._order, old)]
        new = self._key(node)
        if new is not None:
            self._keys[name] = new
            insort(self._order, new)

    def _key(self, node: Node) -> _Key | None:
        if not node.accepting:
            return None
        shares = shares_on(node, self._gang, self._accelerator)
        if shares is None:
            return None
        return (_rank(node, shares), node.node)


def _rank(node: Node, shares: tuple[Share, ...]) -> tuple[int, ...]:
    """Shared devices before fresh ones, then the node with less free, whatever its size; without
    GPUs, leave the machines that have them alone and take the fewest free cores.
    """
    if not shares:
        return (int(bool(node.devices)), node.cpu_milli - node.cpu_used_milli)
    wanted = {share.device for share in shares}
    opens = all(device.used_milli == 0 for device in node.devices if device.device in wanted)
    return (int(opens), node.free_milli)


def shares_on(node: Node, gang: Gang, accelerator: Accelerator) -> tuple[Share, ...] | None:
    """The devices one worker of the gang would get on this node; None when it does not fit."""
    if node.cpu_milli - node.cpu_used_milli < gang.cpu_milli:
        return None
    if node.memory_bytes - node.memory_used_bytes < gang.memory_bytes:
        return None
    if not gang.gpu_memory_bytes and accelerator.milli == 0:
        return ()
    if gang.gpu_memory_bytes or accelerator.milli < DEVICE_MILLI:
        return _share_on(node, gang, accelerator)
    wanted, odd = divmod(accelerator.milli, DEVICE_MILLI)
    free = [d for d in matching(node, accelerator) if d.used_milli == 0]
    if odd or len(free) < wanted:
        return None
    return tuple(Share(device=d.device) for d in free[:wanted])


def matching(node: Node, accelerator: Accelerator) -> Iterator[Device]:
    """The node's usable devices of that kind, in index order."""
    if not (accelerator.model or accelerator.memory_bytes_min or accelerator.memory_bytes_max):
        return (d for d in node.devices if d.usable)
    return (d for d in node.devices if d.usable and matches(d, accelerator))


class Kind(Protocol):
    """Anything that tells what GPU it is."""

    @property
    def model(self) -> str: ...

    @property
    def memory_bytes(self) -> int: ...


def matches(device: Kind, accelerator: Accelerator) -> bool:
    """Whether this device is of the kind asked for: `H100` means any `H100-…`."""
    model, have = accelerator.model.lower(), device.model.lower()
    if model and have != model and not have.startswith(model + "-"):
        return False
    low, high = accelerator.memory_bytes_min, accelerator.memory_bytes_max
    if device.memory_bytes * (100 + SIZE_TOLERANCE_PERCENT) < low * 100:
        return False
    return not high or device.memory_bytes * (100 - SIZE_TOLERANCE_PERCENT) <= high * 100


def milli_of(device: Device, gang: Gang, accelerator: Accelerator) -> int:
    """Thousandths of this device that one share of the gang takes (above 1000: it cannot)."""
    if gang.gpu_memory_bytes:
        return -(-gang.gpu_memory_bytes * DEVICE_MILLI // max(1, device.memory_bytes))
    return accelerator.milli


def _share_on(node: Node, gang: Gang, accelerator: Accelerator) -> tuple[Share, ...] | None:
    best: tuple[int, int, Device, int] | None = None
    for device in matching(node, accelerator):
        milli = milli_of(device, gang, accelerator)
        free = DEVICE_MILLI - device.used_milli
        if milli <= free and (best is None or (free, device.index) < best[:2]):
            best = (free, device.index, device, milli)
    return None if best is None else (Share(device=best[2].device, milli=best[3]),)

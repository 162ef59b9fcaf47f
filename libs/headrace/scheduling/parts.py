"""Parts of the fleet of which queues have allowances: all GPUs of one type, all GPUs of one pool.

Rule: a GPU is of every part that fits it: `H100` and `H100-80GB` both have an `H100-80GB-PCIe`, and
the pool of its node has it too. A tree that names no part costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from headrace.scheduling.amounts import UNLIMITED
from headrace.scheduling.kinds import is_model

TYPE, POOL = "type", "pool"

Cell = tuple[int, ...]  # numbers of the parts that a GPU is of


class Part(msgspec.Struct, frozen=True, order=True, kw_only=True):
    """One part, by the name that documents give it; types in upper case."""

    by: str  # TYPE or POOL
    name: str

    def has(self, model: str, pool: str) -> bool:
        """Whether a GPU of this model, on a node of this pool, is of it."""
        return is_model(model, self.name) if self.by == TYPE else pool == self.name

    @property
    def gpus(self) -> str:
        """Its GPUs, as people say it."""
        return f"{self.name} GPUs" if self.by == TYPE else f"GPUs of pool {self.name}"


class PartRation(msgspec.Struct, frozen=True, kw_only=True):
    """What a queue has of a part, in milli-GPUs: `quota` is guaranteed, `limit` never exceeded, and
    `firm_limit` never by work that cannot be preempted.
    """

    quota: int = 0
    limit: int = UNLIMITED
    firm_limit: int = UNLIMITED


NO_RATION = PartRation()


class Parts:
    """The parts that a tree names, numbered in their order."""

    def __init__(self, parts: Iterable[Part] = ()) -> None:
        self.all = tuple(sorted(set(parts)))
        self._cells: dict[tuple[str, str], Cell] = {}

    def cell(self, model: str, pool: str) -> Cell:
        """Of which parts a GPU of this model, on a node of this pool, is."""
        known = self._cells.get((model, pool))
        if known is None:
            known = self._cells[model, pool] = tuple(
                number for number, part in enumerate(self.all) if part.has(model, pool)
            )
        return known


def type_part(name: str) -> Part:
    """The part of all GPUs of this type."""
    return Part(by=TYPE, name=name.upper())


def pool_part(name: str) -> Part:
    """The part of all GPUs of this pool."""
    return Part(by=POOL, name=name)

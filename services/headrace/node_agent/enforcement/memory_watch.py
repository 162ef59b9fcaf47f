"""Who holds more of a device than its share.

Rule: pure. A process counts for the worker it descends from; what no worker owns is nobody's
offence, and what is held within a share never is, however full the device.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from headrace.node_agent.devices import Sample
from headrace.node_agent.enforcement import Limit
from headrace.node_agent.machine import AttemptKey

TOLERANCE_PERCENT = 1  # libraries round


class Offence(NamedTuple):
    """A worker that holds more of the device than it may."""

    key: AttemptKey
    device: str
    held_bytes: int
    limit: Limit


def is_suspicious(
    samples: Iterable[Sample], limits: Mapping[AttemptKey, Mapping[str, Limit]]
) -> bool:
    """Whether somebody may hold too much: worth finding out whose the processes are."""
    least: dict[str, int] = {}
    for limits_of_one in limits.values():
        for device, limit in limits_of_one.items():
            known = least.get(device, limit.memory_bytes)
            least[device] = min(known, limit.memory_bytes)
    return any(
        sample.device in least
        and sum(held for _, held in sample.processes) > _most(least[sample.device])
        for sample in samples
    )


def offences(
    samples: Iterable[Sample],
    limits: Mapping[AttemptKey, Mapping[str, Limit]],
    owners: Mapping[int, AttemptKey],
) -> list[Offence]:
    """Every worker that holds more of a device than its limit there, in the order of the samples.
    `owners` tells whose a process is.
    """
    found = []
    for sample in samples:
        held: dict[AttemptKey, int] = {}
        for pid, held_bytes in sample.processes:
            if pid in owners:
                held[owners[pid]] = held.get(owners[pid], 0) + held_bytes
        for key, held_bytes in held.items():
            limit = limits.get(key, {}).get(sample.device)
            if limit is not None and held_bytes > _most(limit.memory_bytes):
                found.append(Offence(key, sample.device, held_bytes, limit))
    return found


def _most(memory_bytes: int) -> int:
    return memory_bytes * (100 + TOLERANCE_PERCENT) // 100

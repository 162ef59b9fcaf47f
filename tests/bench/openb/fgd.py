"""Fragmentation gradient descent (Weng et al., USENIX ATC 2023), written from its description.

Rule: the fragmentation of a node is what typical pods cannot use of its free GPUs, weighed by how
often they occur in the whole trace. A pod goes where that grows least, by a score of whole numbers
from 0 to 100; ties go to the first node in order. One node changes at a time: its column of scores,
one row per shape of pod, is then computed anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .workload import DEVICE_MILLI, Machine, Pod

TYPICAL_PERCENT = 95
GPUS_MAX = 8
NONE = -1

_Ints = NDArray[np.int64]
_Floats = NDArray[np.float64]


class Typical:
    """The most frequent kinds of pods that together make up `TYPICAL_PERCENT` of the trace."""

    def __init__(self, pods: Sequence[Pod], models: Sequence[str]) -> None:
        counts = Counter(pod._replace(memory_mib=0) for pod in pods)
        kinds: list[tuple[Pod, int]] = []
        for pod, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
            if sum(number for _, number in kinds) * 100 >= TYPICAL_PERCENT * len(pods):
                break
            kinds.append((pod, count))
        total = sum(count for _, count in kinds)
        self._part = np.array([count / total for _, count in kinds])
        self._cpu = np.array([pod.cpu_milli for pod, _ in kinds])
        self._gpus = np.array([pod.gpus for pod, _ in kinds])
        self._milli = np.array([pod.gpu_milli for pod, _ in kinds])
        self._allowed = {
            model: np.array([not pod.models or model in pod.models for pod, _ in kinds])
            for model in models
        }

    def fragments(self, model: str, cpu: _Ints, free: _Ints) -> _Floats:
        """Milli-GPUs that cannot be used, for many states (rows) of a node of this model."""
        total = free.sum(axis=1)[:, None]
        enough = free[:, None, :] >= self._milli[None, :, None]
        usable = (free[:, None, :] * enough).sum(axis=2)
        hosts = (
            (self._gpus > 0)
            & (cpu[:, None] >= self._cpu)
            & self._allowed[model]
            & (enough.sum(axis=2) >= self._gpus)
        )
        return np.asarray(np.where(hosts, total - usable, total) @ self._part)


class Fgd:
    """The cluster under the published policy."""

    def __init__(
        self, machines: Sequence[Machine], typical: Typical, shapes: Sequence[Pod]
    ) -> None:
        self._machines, self._typical = machines, typical
        self._rows = {shape: row for row, shape in enumerate(shapes)}
        self._cpu = [machine.cpu_milli for machine in machines]
        self._memory = [machine.memory_mib for machine in machines]
        self._free = [
            [DEVICE_MILLI if index < machine.gpus else 0 for index in range(GPUS_MAX)]
            for machine in machines
        ]
        self._needs_cpu = np.array([shape.cpu_milli for shape in shapes])
        self._needs_memory = np.array([shape.memory_mib for shape in shapes])
        self._needs_gpus = np.array([shape.gpus for shape in shapes])
        self._milli = np.array([shape.gpu_milli for shape in shapes])
        self._shared = (self._needs_gpus == 1) & (self._milli < DEVICE_MILLI)
        self._allowed = {
            machine.model: np.array([not s.models or machine.model in s.models for s in shapes])
            for machine in machines
        }
        self._scores = np.full((len(shapes), len(machines)), NONE, dtype=np.int64)
        self._devices = np.zeros((len(shapes), len(machines)), dtype=np.int64)
        self._known: dict[tuple[object, ...], tuple[_Ints, _Ints]] = {}
        for place in range(len(machines)):
            self._score(place)

    def place(self, pod: Pod) -> bool:
        """Place the pod where its score is best, if it fits anywhere."""
        row = self._rows[pod]
        place = int(self._scores[row].argmax())
        if self._scores[row, place] == NONE:
            return False
        self._cpu[place] -= pod.cpu_milli
        self._memory[place] -= pod.memory_mib
        free = self._free[place]
        fitting = [index for index, milli in enumerate(free) if milli >= pod.gpu_milli]
        chosen = [int(self._devices[row, place])] if self._shared[row] else fitting[: pod.gpus]
        for index in chosen:
            free[index] -= pod.gpu_milli
        self._score(place)
        return True

    def free(self) -> list[tuple[int, list[int]]]:
        """Of each node in order: free cores in thousandths, and what is free of each device."""
        return [
            (cpu, free[: machine.gpus])
            for machine, cpu, free in zip(self._machines, self._cpu, self._free, strict=True)
        ]

    def _score(self, place: int) -> None:
        model, free = self._machines[place].model, self._free[place]
        key = (model, self._cpu[place], self._memory[place], *free)
        column = self._known.get(key)
        if column is None:
            column = self._known[key] = self._column(place, model, np.array(free))
        self._scores[:, place], self._devices[:, place] = column

    def _column(self, place: int, model: str, free: _Ints) -> tuple[_Ints, _Ints]:
        """Every shape's score on this node, and the device that a share would get."""
        cpu, memory = self._cpu[place], self._memory[place]
        before = self._typical.fragments(model, np.array([cpu]), free[None, :])[0]
        able = (self._needs_cpu <= cpu) & (self._needs_memory <= memory)
        able &= (self._needs_gpus == 0) | self._allowed[model]
        scores = np.full(len(self._milli), NONE, dtype=np.int64)
        devices = np.zeros(len(self._milli), dtype=np.int64)
        whole = free >= DEVICE_MILLI
        rows = np.flatnonzero(able & ~self._shared & (self._needs_gpus <= whole.sum()))
        taken = whole & (whole.cumsum() <= self._needs_gpus[rows, None])
        scores[rows] = self._marks(model, cpu, rows, free - taken * DEVICE_MILLI, before)
        for milli in dict.fromkeys(free.tolist()):  # equal devices have equal scores
            rows = np.flatnonzero(able & self._shared & (self._milli <= milli))
            device = free.tolist().index(milli)
            after = np.repeat(free[None, :], len(rows), axis=0)
            after[:, device] -= self._milli[rows]
            marks = self._marks(model, cpu, rows, after, before)
            better = rows[marks > scores[rows]]
            scores[rows], devices[better] = np.maximum(marks, scores[rows]), device
        return scores, devices

    def _marks(self, model: str, cpu: int, rows: _Ints, after: _Ints, before: float) -> _Ints:
        fragments = self._typical.fragments(model, cpu - self._needs_cpu[rows], after)
        return (100 / (1 + np.exp((fragments - before) / 1000))).astype(np.int64)

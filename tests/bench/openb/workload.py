"""The trace: nodes in a random but fixed order, and pods that only ever arrive.

Rule: a workload is all pods shuffled, then more of them drawn with replacement until they ask for
`ARRIVALS_PERCENT` of the cluster's GPUs. Seed and order decide everything.
"""

from __future__ import annotations

import csv
import random
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ARRIVALS_PERCENT = 130
DEVICE_MILLI = 1000
NODES_FILE = "openb_node_list_gpu_node.csv"


class Machine(NamedTuple):
    """A node of the trace, empty."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    model: str


class Pod(NamedTuple):
    """What one pod asks for: `gpus` devices with `gpu_milli` of each, of one of `models` if any."""

    cpu_milli: int
    memory_mib: int
    gpus: int
    gpu_milli: int
    models: tuple[str, ...]

    @property
    def milli(self) -> int:
        """Thousandths of GPUs in all."""
        return self.gpus * self.gpu_milli


def machines_of(folder: Path, seed: int, order: int) -> list[Machine]:
    """The cluster. Names sort in the order in which ties are broken."""
    rows = _rows(folder / NODES_FILE)
    random.Random(f"{order}:{seed}").shuffle(rows)
    return [
        Machine(
            name=f"{place:04d}-{row['sn']}",
            cpu_milli=int(row["cpu_milli"]),
            memory_mib=int(row["memory_mib"]),
            gpus=int(row["gpu"]),
            model=row["model"],
        )
        for place, row in enumerate(rows)
    ]


def pods_of(folder: Path, workload: str) -> list[Pod]:
    """The pods of one workload, as the file lists them."""
    return [
        Pod(
            cpu_milli=int(row["cpu_milli"]),
            memory_mib=int(row.get("memory_mib") or 0),
            gpus=int(row["num_gpu"]),
            gpu_milli=int(row["gpu_milli"]) if int(row["num_gpu"]) else 0,
            models=tuple(model for model in row.get("gpu_spec", "").split("|") if model),
        )
        for row in _rows(folder / f"openb_pod_list_{workload}.csv")
    ]


def arrivals_of(pods: Sequence[Pod], seed: int, capacity_milli: int) -> list[Pod]:
    """The pods in the order in which they arrive. As in the published protocol, the test that ends
    the drawing counts one GPU of the next pod, however many it asks for.
    """
    chooser = random.Random(seed)
    arriving = list(pods)
    chooser.shuffle(arriving)
    total = sum(pod.milli for pod in arriving)
    while True:
        pod = chooser.choice(pods)
        if (total + pod.gpu_milli) * 100 > capacity_milli * ARRIVALS_PERCENT:
            return arriving
        arriving.append(pod)
        total += pod.milli


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as lines:
        return [
            {str(name).strip(): (text or "").strip() for name, text in row.items()}
            for row in csv.DictReader(lines)
        ]

"""`make bench-openb OPENB=<folder>`: our policy and the published one on the same arrivals.

Prints a line per seed, and one JSON object on the last line. Percentages of the cluster's GPUs are
means over the samples after each arrival in the last percent of `ARRIVALS_PERCENT`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Protocol

import numpy as np

from .fgd import GPUS_MAX, Fgd, Typical
from .ours import Ours
from .workload import (
    ARRIVALS_PERCENT,
    DEVICE_MILLI,
    NODES_FILE,
    Machine,
    Pod,
    arrivals_of,
    machines_of,
    pods_of,
)


class Policy(Protocol):
    """A cluster that pods arrive at."""

    def place(self, pod: Pod) -> bool: ...

    def free(self) -> list[tuple[int, list[int]]]: ...


def main() -> int:
    """Run the seeds asked for; 2 when the trace is not there."""
    parser = argparse.ArgumentParser(prog="bench-openb")
    parser.add_argument("folder", type=Path, help="the folder of the trace")
    parser.add_argument("--workload", default="default")
    parser.add_argument("--seeds", default="42-51", help="one seed, or first-last")
    parser.add_argument("--order", type=int, default=0, help="which order of the nodes")
    asked = parser.parse_args()
    for name in (NODES_FILE, f"openb_pod_list_{asked.workload}.csv"):
        if not (asked.folder / name).is_file():
            print(f"bench-openb: no trace: {asked.folder / name} is missing", file=sys.stderr)
            return 2
    first, _, last = asked.seeds.partition("-")
    rows: list[dict[str, float]] = []
    for seed in range(int(first), int(last or first) + 1):
        rows.append(measure(asked.folder, asked.workload, seed, asked.order))
        print(json.dumps(rows[-1]), flush=True)
    means = {key: round(mean(row[key] for row in rows), 3) for key in rows[0] if key != "seed"}
    ahead = sum(row["alloc_pct"] > row["fgd_alloc_pct"] for row in rows)
    head = {"workload": asked.workload, "order": asked.order, "ahead": ahead, "of": len(rows)}
    print(json.dumps({**head, **means, "seeds": rows}))
    return 0


def measure(folder: Path, workload: str, seed: int, order: int) -> dict[str, float]:
    """Both policies' figures for one seed."""
    machines = machines_of(folder, seed, order)
    pods = pods_of(folder, workload)
    capacity_milli = sum(machine.gpus for machine in machines) * DEVICE_MILLI
    arriving = arrivals_of(pods, seed, capacity_milli)
    typical = Typical(pods, sorted({machine.model for machine in machines}))
    ours, published = Ours(machines), Fgd(machines, typical, sorted(set(arriving)))
    alloc_pct, ms, cpu_ms = _run(ours, arriving, capacity_milli)
    fgd_alloc_pct, fgd_ms, _ = _run(published, arriving, capacity_milli)
    return {
        "seed": seed,
        "alloc_pct": round(alloc_pct, 3),
        "fgd_alloc_pct": round(fgd_alloc_pct, 3),
        "frag_pct": round(_frag_pct(ours, machines, typical), 3),
        "fgd_frag_pct": round(_frag_pct(published, machines, typical), 3),
        "ms_per_placement": round(ms, 3),
        "cpu_ms_per_placement": round(cpu_ms, 3),
        "fgd_ms_per_placement": round(fgd_ms, 3),
    }


def _run(
    policy: Policy, arriving: Sequence[Pod], capacity_milli: int
) -> tuple[float, float, float]:
    """Mean share of the GPUs allocated at the end, and milliseconds per pod that was placed: on the
    clock and of the processor.
    """
    arrived = allocated = placed = 0
    samples: list[int] = []
    began, began_cpu = time.perf_counter(), time.process_time()
    for pod in arriving:
        arrived += pod.milli
        if policy.place(pod):
            allocated += pod.milli
            placed += 1
        if round(arrived * 100 / capacity_milli) == ARRIVALS_PERCENT:
            samples.append(allocated)
    ms = (time.perf_counter() - began) * 1000 / placed
    cpu_ms = (time.process_time() - began_cpu) * 1000 / placed
    return mean(samples) * 100 / capacity_milli, ms, cpu_ms


def _frag_pct(policy: Policy, machines: Sequence[Machine], typical: Typical) -> float:
    """How much of what is idle at the end typical pods cannot use."""
    idle = fragments = 0.0
    for machine, (cpu_milli, free) in zip(machines, policy.free(), strict=True):
        padded = np.array([free + [0] * (GPUS_MAX - len(free))])
        fragments += float(typical.fragments(machine.model, np.array([cpu_milli]), padded)[0])
        idle += sum(free)
    return fragments * 100 / max(1.0, idle)


if __name__ == "__main__":
    sys.exit(main())

"""Slurm's names, by which Megatron, submitit, Lightning, JAX and others find their ranks under `srun`.

Rule: told only to who asks for them (`headrace sbatch`, `framework: slurm`), for whoever sees them
believes that `srun` has started all of its processes. What those tools take for numbers is a number;
`SLURM_STEP_ID` is not set, because MPI libraries conclude from it that Slurm's own daemons are there.
Source: sbatch(1) and srun(1), output environment variables (version 25.05).
"""

from __future__ import annotations

import re
from zlib import crc32

from headrace.documents.frameworks.place import Place

JOB_ID_MAX = 2**31  # Slurm's own ids are below
PROGRAMS = ("srun", "sbatch", "scancel", "scontrol", "squeue", "sacct", "sinfo")

_NUMBERED = re.compile(r"(.*?)([0-9]{1,9})")


def number_of(job: str) -> int:
    """The number that stands for a job, or a task of one, where Slurm's users write numbers: the same
    for all of its attempts.
    """
    return crc32(job.encode()) % JOB_ID_MAX


def bracketed(names: tuple[str, ...]) -> str:
    """A list of nodes as Slurm writes it: `n[1-3,7],login`."""
    ranges: dict[tuple[str, int], list[list[int]]] = {}
    for name in dict.fromkeys(names):
        found = _NUMBERED.fullmatch(name)
        prefix, digits = (found[1], found[2]) if found else (name, "")
        width = len(digits) if digits else -1
        is_padded = digits.startswith("0") or (prefix, width) in ranges
        of = ranges.setdefault((prefix, width if is_padded or not digits else 0), [])
        number = int(digits or 0)
        if of and of[-1][1] + 1 == number:
            of[-1][1] = number
        else:
            of.append([number, number])
    return ",".join(_written(prefix, width, of) for (prefix, width), of in ranges.items())


def environment(place: Place) -> dict[str, str]:
    """The allocation and this process's place in it."""
    nodes, here = str(place.nodes), str(place.processes)
    names = bracketed(place.names)
    array, _, index = place.job.partition("/")
    of_array = {"SLURM_ARRAY_JOB_ID": str(number_of(array)), "SLURM_ARRAY_TASK_ID": index}
    told = of_array if index else {}
    if place.shares_a_machine:  # torchrun tells nodes apart by host name and process number alone
        told["PET_LOCAL_ADDR"] = place.names[place.node_rank]
    return (
        told
        | ranks(place)
        | {
            "SLURM_JOBID": str(number_of(place.job)),
            "SLURM_JOB_NAME": place.job,
            "SLURM_JOB_NUM_NODES": nodes,
            "SLURM_JOB_NODELIST": names,
            "SLURM_NODELIST": names,
            "SLURM_STEP_NODELIST": names,
            "SLURM_NNODES": nodes,
            "SLURM_NODEID": str(place.node_rank),
            "SLURMD_NODENAME": place.names[place.node_rank] if not place.is_elastic else "",
            "SLURM_NPROCS": str(place.world),
            "SLURM_NTASKS_PER_NODE": here,
            "SLURM_TASKS_PER_NODE": f"{here}(x{nodes})" if place.nodes > 1 else here,
            "SLURM_GPUS_ON_NODE": str(place.devices),
            "SLURM_CPUS_ON_NODE": str(place.cores or 1),
        }
    )


def ranks(place: Place) -> dict[str, str]:
    """Which of how many processes this is, and where the first is: all that JAX reads."""
    return {
        "SLURM_JOB_ID": str(number_of(place.job)),
        "SLURM_STEP_NODELIST": ",".join(place.addresses),
        "SLURM_STEP_NUM_NODES": str(place.nodes),
        "SLURM_NTASKS": str(place.world),
        "SLURM_PROCID": str(place.rank),
        "SLURM_LOCALID": str(place.local),
    }


def _written(prefix: str, width: int, ranges: list[list[int]]) -> str:
    if width < 0:
        return prefix
    parts = [
        f"{first:0{width}}" if first == last else f"{first:0{width}}-{last:0{width}}"
        for first, last in ranges
    ]
    is_one = len(parts) == 1 and "-" not in parts[0]
    return f"{prefix}{parts[0]}" if is_one else f"{prefix}[{','.join(parts)}]"

"""Slurm's names, by which JAX, Lightning, Megatron, submitit and others find their ranks.

Rule: what those tools take for numbers is a number; `SLURM_STEP_ID` is not set, because MPI
libraries conclude from it that `srun` has started them.
"""

from __future__ import annotations

from zlib import crc32

from headrace.documents.frameworks.place import Place

JOB_ID_MAX = 2**31  # Slurm's own ids are below


def environment(place: Place) -> dict[str, str]:
    """The allocation and this process's place in it."""
    nodes, world, here = str(place.nodes), str(place.world), str(place.processes)
    addresses = ",".join(place.addresses)
    return {
        "SLURM_JOB_ID": str(crc32(f"{place.job}.{place.attempt}".encode()) % JOB_ID_MAX),
        "SLURM_JOB_NAME": place.job,
        "SLURM_JOB_NUM_NODES": nodes,
        "SLURM_JOB_NODELIST": addresses,
        "SLURM_STEP_NODELIST": addresses,
        "SLURM_STEP_NUM_NODES": nodes,
        "SLURM_NNODES": nodes,
        "SLURM_NODEID": str(place.node_rank),
        "SLURM_NTASKS": world,
        "SLURM_NTASKS_PER_NODE": here,
        "SLURM_TASKS_PER_NODE": f"{here}(x{nodes})" if place.nodes > 1 else here,
        "SLURM_GPUS_ON_NODE": str(place.devices),
        "SLURM_PROCID": str(place.rank),
        "SLURM_LOCALID": str(place.local),
    }

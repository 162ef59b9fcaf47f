"""JAX: what `jax.distributed.initialize()` looks for.

Rule: it reads the coordinator from here; how many processes there are and which this is it takes
from Slurm's names and knows none of its own, so that who asks for `jax` is told those too.
"""

from __future__ import annotations

from headrace.documents.frameworks import slurm
from headrace.documents.frameworks.place import Place


def environment(place: Place) -> dict[str, str]:
    """The coordinator (rank 0), the processes, and the devices of this one."""
    if place.is_elastic:
        return {}
    told = {
        "JAX_COORDINATOR_ADDRESS": f"{place.head}:{place.port}",
        "JAX_NUM_PROCESSES": str(place.world),
        "JAX_PROCESS_ID": str(place.rank),
    }
    if place.processes == 1 and place.devices:  # from Slurm's names it would take the first alone
        told["JAX_LOCAL_DEVICE_IDS"] = ",".join(map(str, range(place.devices)))
    return told


def detected(place: Place) -> dict[str, str]:
    """What it detects a cluster by (`jax._src.clusters.slurm_cluster`, JAX 0.10)."""
    return {} if place.is_elastic else slurm.ranks(place)

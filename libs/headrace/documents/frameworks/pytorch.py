"""PyTorch: bare `python` with one process per GPU, or `torchrun`, which reads `PET_*`.

Source: torch.distributed's `env://` and torchrun's arguments, each `PET_` and its name.
"""

from __future__ import annotations

from headrace.documents.frameworks.place import Place


def environment(place: Place) -> dict[str, str]:
    """Where rank 0 is, who this is, and what torchrun would be told on its command line."""
    told = {
        "RANK": str(place.rank),
        "LOCAL_RANK": str(place.local),
        "WORLD_SIZE": str(place.world),
        "LOCAL_WORLD_SIZE": str(place.processes),
        "GROUP_RANK": str(place.node_rank),
        "NODE_RANK": str(place.node_rank),
        "PET_NNODES": str(place.nodes),
        "PET_NODE_RANK": str(place.node_rank),
        "PET_NPROC_PER_NODE": str(max(1, place.devices)),
        "PET_MASTER_ADDR": place.head,
        "PET_MASTER_PORT": str(place.port),
    }
    return told | _elastic(place) if place.is_elastic else told


def _elastic(place: Place) -> dict[str, str]:
    """How members find each other that come and go: rank 0, which stays to the end, holds the
    rendezvous.
    """
    return {
        "PET_NNODES": f"{place.nodes_min}:{place.nodes_max}",
        "PET_RDZV_BACKEND": "c10d",
        "PET_RDZV_ENDPOINT": f"{place.head}:{place.port}",
        "PET_RDZV_ID": f"{place.job}-{place.attempt}".replace("/", "-"),  # it makes a file of it
        "PET_RDZV_CONF": f"is_host={str(place.node_rank == 0).lower()}",
    }

"""PyTorch: bare `python` with one process per GPU, or `torchrun`, which reads `PET_*`.

Source: torch.distributed's `env://` and torchrun's arguments, each `PET_` and its name.
"""

from __future__ import annotations

from headrace.documents.frameworks.place import Place

OF_ONE_DEVICE = (
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
)  # by which a process knows that it is one of several
RESTARTS_MAX = 100  # each time that somebody leaves, and before a program that fails is given up
LAST_CALL_S = 5  # for others to come at once, when there are enough
KEEP_ALIVE_S, KEEP_ALIVE_MISSED_MAX = 2, 3  # before somebody has gone


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
    if (
        place.processes == 1 and place.devices > 1
    ):  # it starts its own: Lightning, Accelerate, Trainer
        for name in OF_ONE_DEVICE:
            del told[name]
    return told | _elastic(place) if place.is_elastic else told


def _elastic(place: Place) -> dict[str, str]:
    """How members find each other that come and go: rank 0, which stays to the end, holds the
    rendezvous. When one leaves, the processes of the others fail in what they did together, which
    torchrun counts as a restart.
    """
    rendezvous = {
        "is_host": str(place.node_rank == 0).lower(),
        "last_call_timeout": LAST_CALL_S,
        "keep_alive_interval": KEEP_ALIVE_S,
        "keep_alive_max_attempt": KEEP_ALIVE_MISSED_MAX,
    }
    return {
        "PET_NNODES": f"{place.nodes_min}:{place.nodes_max}",
        "PET_RDZV_BACKEND": "c10d",
        "PET_RDZV_ENDPOINT": f"{place.head}:{place.port}",
        "PET_RDZV_ID": f"{place.job}-{place.attempt}".replace("/", "-"),  # it makes a file of it
        "PET_RDZV_CONF": ",".join(f"{name}={value}" for name, value in rendezvous.items()),
        "PET_MAX_RESTARTS": str(RESTARTS_MAX),
        # with a shared store who comes later is never told where rank 0 is (seen in PyTorch 2.13)
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    }

"""TensorFlow and Keras: `TF_CONFIG`, which `TFConfigClusterResolver` reads.

Rule: one process alone is told nothing, as TensorFlow means it; members of an elastic gang neither,
because the cluster of a strategy is fixed.
"""

from __future__ import annotations

import msgspec

from headrace.documents.frameworks.place import Place


def environment(place: Place) -> dict[str, str]:
    """Every worker's address, by role, and which of them this is. Without roles all are workers, of
    which the first is the chief, by convention.
    """
    if place.world == 1 or place.is_elastic:
        return {}
    config = {
        "cluster": {role or "worker": ends for role, ends in place.endpoints_of_roles.items()},
        "task": {"type": place.role or "worker", "index": place.role_rank},
    }
    return {"TF_CONFIG": msgspec.json.encode(config).decode()}

"""TensorFlow and Keras: `TF_CONFIG`, which `TFConfigClusterResolver` reads.

Rule: one process alone is told nothing, as TensorFlow means it; members of an elastic gang neither,
because the cluster of a strategy is fixed.
"""

from __future__ import annotations

import msgspec

from headrace.documents.frameworks.place import Place


def environment(place: Place) -> dict[str, str]:
    """Every worker's address, and which of them this is. Worker 0 is the chief, by convention."""
    if place.world == 1 or place.is_elastic:
        return {}
    config = {
        "cluster": {"worker": list(place.endpoints)},
        "task": {"type": "worker", "index": place.rank},
    }
    return {"TF_CONFIG": msgspec.json.encode(config).decode()}

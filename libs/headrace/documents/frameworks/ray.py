"""Ray: where the head is, for `ray start --address` and for `ray.init()` without arguments.

Rule: rank 0's node runs the head (`ray start --head --port $MASTER_PORT`). Only when asked for: with
it a script that means a Ray of its own would look for one that is not there.
"""

from __future__ import annotations

from headrace.documents.frameworks.place import Place


def environment(place: Place) -> dict[str, str]:
    """The head's address; usage reports to Ray's makers stay off."""
    return {"RAY_ADDRESS": f"{place.head}:{place.port}", "RAY_USAGE_STATS_ENABLED": "0"}

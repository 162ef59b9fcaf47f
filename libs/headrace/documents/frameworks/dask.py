"""Dask: where the scheduler is, for `dask worker` and for `Client()` without arguments.

Rule: rank 0's node runs the scheduler (`dask scheduler --port $MASTER_PORT`). Only when asked for:
with it `Client()` of a script that means a cluster of its own would look for one that is not there.
"""

from __future__ import annotations

from headrace.documents.frameworks.place import Place


def environment(place: Place) -> dict[str, str]:
    """The scheduler's address, as Dask's configuration names it."""
    return {"DASK_SCHEDULER_ADDRESS": f"tcp://{place.head}:{place.port}"}

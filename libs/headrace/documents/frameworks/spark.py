"""Spark: a standalone cluster of the gang's own.

Rule: rank 0's node runs the master, every node a worker. `MASTER` is what spark-submit and PySpark
take when neither the code nor the command line names one. Only when asked for, as for Ray.
"""

from __future__ import annotations

from headrace.documents.frameworks.place import Place


def environment(place: Place) -> dict[str, str]:
    """The master's address, and where each part of the cluster listens and keeps its files."""
    master = f"spark://{place.head}:{place.port}"
    told = {
        "MASTER": master,
        "SPARK_MASTER_HOST": place.head,
        "SPARK_MASTER_PORT": str(place.port),
        "SPARK_MASTER_URL": master,
        "SPARK_LOCAL_DIRS": f"{place.folder}/work",
        "SPARK_WORKER_DIR": f"{place.folder}/work",
        "SPARK_NO_DAEMONIZE": "1",
    }
    if not place.is_elastic:
        told["SPARK_LOCAL_IP"] = place.addresses[place.node_rank]
    if place.cores:
        told["SPARK_WORKER_CORES"] = str(place.cores)
    return told

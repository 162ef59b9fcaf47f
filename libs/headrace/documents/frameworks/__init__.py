"""What `framework:` means: which environment the processes of a job find.

Rule: pure, and one file per dialect. A framework is told its own names and no others; without
`framework:` a job is told all that do not conflict. Nothing here chooses how many processes run.
A framework is added as its file, if it has names of its own, and its line in `FRAMEWORKS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headrace.documents.frameworks import (
    dask,
    jax,
    mpi,
    pytorch,
    ray,
    slurm,
    spark,
    tensorflow,
)
from headrace.documents.frameworks.exhaustion import EXHAUSTED
from headrace.documents.frameworks.mpi import BIN
from headrace.documents.frameworks.place import HOSTFILE, HOSTS, Place

Dialect = Callable[[Place], dict[str, str]]

FRAMEWORKS: Mapping[str, tuple[Dialect, ...]] = {
    "": (pytorch.environment, tensorflow.environment, jax.environment),
    "pytorch": (pytorch.environment,),
    "tensorflow": (tensorflow.environment,),
    "keras": (tensorflow.environment,),
    "jax": (jax.environment, jax.detected),
    "mpi": (mpi.environment,),
    "horovod": (mpi.environment,),
    "deepspeed": (pytorch.environment, mpi.environment),
    "dask": (dask.environment,),
    "ray": (ray.environment,),
    "spark": (spark.environment,),
    "slurm": (slurm.environment,),
    "scikit-learn": (),
    "caffe": (),
    "plain": (),
}
SLURM = "slurm"
FIXED = ("tensorflow", "keras", "jax", "mpi", "horovod")  # their processes are known from the start
THREADS = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "LOKY_MAX_CPU_COUNT",
)


def environment(framework: str, place: Place) -> dict[str, str]:
    """The framework's names, and Headrace's own, for one process. An unknown one has none."""
    told = {
        "HEADRACE_RANK": str(place.rank),
        "HEADRACE_LOCAL_RANK": str(place.local),
        "HEADRACE_WORLD_SIZE": str(place.world),
    }
    for dialect in FRAMEWORKS.get(framework, ()):
        told |= dialect(place)
    return told


def defaults(place: Place) -> dict[str, str]:
    """What the job's own environment may overrule: how many threads libraries start, where the job
    has cores of its own (`resources.cpu`); without it they take every core of the machine.
    """
    if not place.cores:
        return {}
    return dict.fromkeys(THREADS, str(max(1, place.cores // place.processes)))


def programs(framework: str) -> tuple[str, ...]:
    """The programs that Headrace puts before the framework's own, in `BIN` of the folder."""
    dialects = FRAMEWORKS.get(framework, ())
    if slurm.environment in dialects:
        return slurm.PROGRAMS
    return mpi.PROGRAMS if mpi.environment in dialects else ()


__all__ = [
    "BIN",
    "EXHAUSTED",
    "FIXED",
    "FRAMEWORKS",
    "HOSTFILE",
    "HOSTS",
    "SLURM",
    "Place",
    "defaults",
    "environment",
    "programs",
]

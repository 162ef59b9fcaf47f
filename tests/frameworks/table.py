"""The frameworks and the ways to parallelise, and the example that shows each.

Rule: an example says what it got, what one process gets from the same data, and the `difference`;
it fails by itself when that is more than rounding (or, where nobody waits, more than it may be).
"""

from __future__ import annotations

from typing import NamedTuple


class Case(NamedTuple):
    """`file` is below examples/. `module` is what must be importable, `program` what must be
    installed; without a `file`, `reason` is why it is not run. `is_elastic`: members come and
    go while it runs.
    """

    name: str
    file: str
    module: str = ""
    program: str = ""
    reason: str = ""
    is_elastic: bool = False


NO_HOROVOD = "0.28.1, its last release (2023), compiles as C++14; PyTorch 2.13 asks for C++17"
NO_CAFFE = "command only: no package of it in the registries; `framework: caffe` sets nothing"

FRAMEWORKS = (
    Case("PyTorch", "paradigms/data-parallel.yaml", "torch"),
    Case("PyTorch, torchrun", "paradigms/torchrun.yaml", "torch"),
    Case("TensorFlow", "frameworks/tensorflow.yaml", "tensorflow"),
    Case("Keras", "frameworks/keras.yaml", "keras"),
    Case("JAX", "frameworks/jax.yaml", "jax"),
    Case("MPI", "frameworks/mpi.yaml", "mpi4py", "mpirun"),
    Case("DeepSpeed", "frameworks/deepspeed.yaml", "deepspeed", "c++"),
    Case("Dask", "frameworks/dask.yaml", "dask"),
    Case("Ray", "frameworks/ray.yaml", "ray"),
    Case("Spark", "frameworks/spark.yaml", "pyspark", "java"),
    Case("scikit-learn", "frameworks/scikit-learn.yaml", "sklearn"),
    Case("Horovod", "", reason=NO_HOROVOD),
    Case("Caffe", "", reason=NO_CAFFE),
)
PARADIGMS = (
    Case("DataParallel, one process", "paradigms/data-parallel-one-process.yaml", "torch"),
    Case("MirroredStrategy", "paradigms/mirrored.yaml", "tensorflow"),
    Case("model parallel", "paradigms/model-parallel.yaml", "torch"),
    Case("pipeline", "paradigms/pipeline.yaml", "torch"),
    Case("hybrid: data × pipeline", "paradigms/hybrid.yaml", "torch"),
    Case("parameter server, sync", "paradigms/parameter-server-sync.yaml", "sklearn"),
    Case("parameter server, async", "paradigms/parameter-server-async.yaml", "sklearn"),
    Case("ParameterServerStrategy", "paradigms/tensorflow-parameter-server.yaml", "tensorflow"),
    Case("elastic, 2 → 4 → 2", "paradigms/elastic.yaml", "sklearn", is_elastic=True),
    Case("torchrun, 2 → 4 → 2", "paradigms/elastic-torchrun.yaml", "torch", is_elastic=True),
)
CASES = FRAMEWORKS + PARADIGMS

"""Keras' `fit` over all processes of the gang, on JAX, compared with `fit` in one process.

Reads what `framework: jax` tells it. Each process gives Keras' DataParallel its part of every batch.
"""

import os

os.environ["KERAS_BACKEND"] = "jax"

import jax
import keras
import numpy as np
from sklearn.datasets import load_digits

EPOCHS, BATCH = 3, 100


def fit(distribution: keras.distribution.DataParallel | None) -> tuple[float, np.ndarray]:
    keras.utils.set_random_seed(1)
    keras.distribution.set_distribution(distribution)
    digits = load_digits()
    processes = 1 if distribution is None else jax.process_count()
    rows = np.arange(1600).reshape(-1, processes, BATCH // processes)  # batch, process, row
    mine = rows[:, jax.process_index() if distribution else 0].ravel()
    images, labels = digits.data[mine] / 16.0, digits.target[mine]
    layers = [keras.Input((64,)), keras.layers.Dense(32, "relu"), keras.layers.Dense(10)]
    model = keras.Sequential(layers)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=keras.optimizers.SGD(0.5), loss=loss)
    batch = BATCH // processes
    history = model.fit(images, labels, batch, EPOCHS, shuffle=False, verbose=0)
    weights = [np.asarray(jax.device_get(w.value.addressable_data(0))) for w in model.weights]
    return history.history["loss"][-1], np.concatenate([w.ravel() for w in weights])


def main() -> None:
    world_size = int(os.environ.get("HEADRACE_WORLD_SIZE", "1"))
    if world_size > 1:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize()
    loss, weights = fit(keras.distribution.DataParallel(auto_shard_dataset=False))
    rank = jax.process_index()
    print(f"rank {rank} of {world_size}: loss {loss:.9f}", flush=True)
    if rank == 0:
        alone, expected = fit(None)
        difference = float(np.abs(weights - expected).max())
        print(f"one process: loss {alone:.9f}  difference {difference:.1e}", flush=True)
        if difference > 1e-4:
            raise SystemExit("the distributed weights differ from the one-process weights")


if __name__ == "__main__":
    main()

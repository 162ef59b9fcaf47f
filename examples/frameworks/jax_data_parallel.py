"""Data-parallel training in JAX over all processes of the gang, compared with one process.

`jax.distributed.initialize()` needs no arguments: `framework: jax` tells it who is who.
"""

import os

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from sklearn.datasets import load_digits

STEPS = 20


def loss_of(weights: jax.Array, images: jax.Array, labels: jax.Array) -> jax.Array:
    chances = jax.nn.log_softmax(images @ weights)
    return -jnp.mean(jnp.take_along_axis(chances, labels[:, None], axis=1))


@jax.jit
def step(weights: jax.Array, images: jax.Array, labels: jax.Array) -> tuple[jax.Array, jax.Array]:
    loss, gradient = jax.value_and_grad(loss_of)(weights, images, labels)
    return weights - 0.5 * gradient, loss


def train(images: jax.Array, labels: jax.Array, weights: jax.Array) -> tuple[jax.Array, float]:
    loss = jnp.zeros(())
    for _ in range(STEPS):
        weights, loss = step(weights, images, labels)
    return np.asarray(weights.addressable_data(0)), float(loss.addressable_data(0))


def main() -> None:
    if int(os.environ.get("HEADRACE_WORLD_SIZE", "1")) > 1:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize()
    digits = load_digits()
    images, labels = np.float32(digits.data[:1600] / 16.0), np.int32(digits.target[:1600])
    weights = np.zeros((64, 10), np.float32)
    mesh = Mesh(np.array(jax.devices()), ("data",))
    rows = NamedSharding(mesh, PartitionSpec("data"))
    everywhere = NamedSharding(mesh, PartitionSpec())

    def spread(array: np.ndarray, sharding: NamedSharding) -> jax.Array:
        return jax.make_array_from_callback(array.shape, sharding, lambda part: array[part])

    trained, loss = train(spread(images, rows), spread(labels, rows), spread(weights, everywhere))
    rank = jax.process_index()
    print(f"rank {rank} of {jax.process_count()}: loss {loss:.9f}", flush=True)
    if rank == 0:
        expected, alone = train(jnp.array(images), jnp.array(labels), jnp.array(weights))
        difference = float(np.abs(trained - expected).max())
        print(f"one process: loss {alone:.9f}  difference {difference:.1e}", flush=True)
        if difference > 1e-5:
            raise SystemExit("the distributed weights differ from the one-process weights")


if __name__ == "__main__":
    main()

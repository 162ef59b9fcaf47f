"""A fit on Ray: an actor per worker process computes its shard's gradient; compared with one process.

`ray.init()` finds the gang's head by itself: `framework: ray` tells where it is.
"""

import sys
import time

import numpy as np
import ray
from sklearn.datasets import load_digits

STEPS, NODES, ACTORS = 20, int(sys.argv[1]), int(sys.argv[2])
JOIN_S = 120.0


class Shard:
    """One part of the digits."""

    def __init__(self, shard: int, shards: int) -> None:
        digits = load_digits()
        self.total = len(digits.data)
        self.images = digits.data[shard::shards] / 16.0
        self.labels = np.eye(10)[digits.target[shard::shards]]

    def gradient(self, weights: np.ndarray) -> np.ndarray:
        chances = np.exp(self.images @ weights)
        chances /= chances.sum(axis=1, keepdims=True)
        return self.images.T @ (chances - self.labels) / self.total


def main() -> None:
    ray.init(log_to_driver=False)
    deadline = time.monotonic() + JOIN_S
    while sum(node["Alive"] for node in ray.nodes()) < NODES and time.monotonic() < deadline:
        time.sleep(0.2)
    actors = [
        ray.remote(num_cpus=1, scheduling_strategy="SPREAD")(Shard).remote(shard, ACTORS)
        for shard in range(ACTORS)
    ]
    weights, expected, alone = np.zeros((64, 10)), np.zeros((64, 10)), Shard(0, 1)
    for _ in range(STEPS):
        shards = ray.get([actor.gradient.remote(weights) for actor in actors])
        weights = weights - 0.5 * sum(shards)
        expected = expected - 0.5 * alone.gradient(expected)
    nodes = sum(node["Alive"] for node in ray.nodes())
    difference = np.abs(weights - expected).max()
    print(f"{ACTORS} actors, {nodes} nodes: weights' norm {np.linalg.norm(weights):.9f}")
    print(f"one process: {np.linalg.norm(expected):.9f}  difference {difference:.1e}")
    if difference > 1e-9 or nodes < NODES:
        raise SystemExit("what the cluster fitted differs from one process")


if __name__ == "__main__":
    main()

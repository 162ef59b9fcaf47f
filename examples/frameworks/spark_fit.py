"""A fit on Spark: executors compute gradients of their partitions, compared with one process.

The session finds the gang's master by itself: `framework: spark` sets MASTER.
"""

import os
import sys

import numpy as np
from pyspark.sql import SparkSession
from sklearn.datasets import load_digits

STEPS, CORES = 10, int(sys.argv[1])


def gradient_of(weights: np.ndarray, images: np.ndarray, labels: np.ndarray) -> np.ndarray:
    chances = np.exp(images @ weights)
    chances /= chances.sum(axis=1, keepdims=True)
    return images.T @ (chances - labels)


def main() -> None:
    builder = SparkSession.builder.master(os.environ.get("MASTER", "local"))
    builder = builder.config("spark.cores.max", CORES).config("spark.executor.memory", "512m")
    builder = builder.config("spark.scheduler.minRegisteredResourcesRatio", 1.0)
    builder = builder.config("spark.scheduler.maxRegisteredResourcesWaitingTime", "60s")
    session = builder.config("spark.ui.enabled", "false").getOrCreate()
    context = session.sparkContext
    digits = load_digits()
    images, labels = digits.data / 16.0, np.eye(10)[digits.target]
    shards = [(images[part::CORES], labels[part::CORES]) for part in range(CORES)]
    rows = context.parallelize(shards, CORES).cache()
    weights, expected = np.zeros((64, 10)), np.zeros((64, 10))
    for _ in range(STEPS):
        known = weights
        total = rows.map(lambda shard: gradient_of(known, *shard)).reduce(np.add)  # noqa: B023
        weights = weights - 0.5 * total / len(images)
        expected = expected - 0.5 * gradient_of(expected, images, labels) / len(images)
    executors = context._jsc.sc().getExecutorMemoryStatus().size() - 1  # noqa: SLF001
    session.stop()
    difference = np.abs(weights - expected).max()
    print(f"{executors} executors: weights' norm {np.linalg.norm(weights):.9f}")
    print(f"one process: {np.linalg.norm(expected):.9f}  difference {difference:.1e}")
    if difference > 1e-9:
        raise SystemExit("what the cluster fitted differs from one process")


if __name__ == "__main__":
    main()

"""A parameter server, plain: it keeps the weights, workers send it gradients of their shards.

`--mode sync`: a step waits for every worker; the weights equal those of one process. `--mode async`:
nobody waits, a gradient may be of older weights; the loss comes as low as one process gets it.
The job's roles are `ps` and `worker`; each worker exits with 1 when what came out is wrong.
"""

import argparse
import json
import os
import threading
import time
from multiprocessing.managers import BaseManager

import numpy as np
from sklearn.datasets import load_digits

STEPS, RATE, TOTAL = 40, 0.5, 1_797
CONNECT_S = 60.0  # for the server to listen
KEY = os.environ.get("HEADRACE_GANG_KEY", "alone").encode()  # who may speak to the server


class Server:
    """The weights, and how gradients change them."""

    def __init__(self, workers: int, *, sync: bool) -> None:
        self.weights, self.steps = np.zeros((64, 10)), 0
        self._sync, self._sum = sync, np.zeros((64, 10))
        self._turn = threading.Barrier(workers, self._apply)
        self._lock = threading.Lock()

    def pull(self) -> np.ndarray:
        return self.weights

    def applied(self) -> int:
        return self.steps

    def push(self, gradient: np.ndarray) -> None:
        with self._lock:
            self._sum += gradient
            if not self._sync:
                self._apply()
        if self._sync:
            self._turn.wait()

    def _apply(self) -> None:
        self.weights = self.weights - RATE * self._sum
        self._sum, self.steps = np.zeros((64, 10)), self.steps + 1


class Manager(BaseManager):
    """Makes one `Server` reachable."""


def data(rank: int = 0, workers: int = 1) -> tuple[np.ndarray, np.ndarray]:
    digits = load_digits()
    return digits.data[rank::workers] / 16.0, np.eye(10)[digits.target[rank::workers]]


def gradient_of(weights: np.ndarray, images: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """A shard's part of the gradient of the mean loss over all digits."""
    chances = np.exp(images @ weights)
    chances /= chances.sum(axis=1, keepdims=True)
    return images.T @ (chances - labels) / TOTAL


def loss_of(weights: np.ndarray) -> float:
    images, labels = data()
    chances = np.exp(images @ weights)
    return float(-np.log((chances * labels).sum(axis=1) / chances.sum(axis=1)).mean())


def serve(address: tuple[str, int], workers: int, *, sync: bool) -> None:
    server = Server(workers, sync=sync)
    Manager.register("server", lambda: server)
    Manager(address, KEY).get_server().serve_forever()


def connect(address: tuple[str, int]) -> Server:
    Manager.register("server")
    manager, deadline = Manager(address, KEY), time.monotonic() + CONNECT_S
    while True:
        try:
            manager.connect()
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return manager.server()


def train_alone() -> np.ndarray:
    weights, (images, labels) = np.zeros((64, 10)), data()
    for _ in range(STEPS):
        weights = weights - RATE * gradient_of(weights, images, labels)
    return weights


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", choices=("sync", "async"), default="sync")
    sync = parser.parse_args().mode == "sync"
    roles = json.loads(os.environ["HEADRACE_ROLES"])
    host, port = roles["ps"][0].split(":")
    workers, rank = len(roles["worker"]), int(os.environ["HEADRACE_ROLE_RANK"])
    if os.environ["HEADRACE_ROLE"] == "ps":
        serve(("", int(port)), workers, sync=sync)
        return
    server, (images, labels) = connect((host, int(port))), data(rank, workers)
    for _ in range(STEPS):
        server.push(gradient_of(server.pull(), images, labels))
    while server.applied() < STEPS * (1 if sync else workers):
        time.sleep(0.05)  # others are behind
    weights, expected = server.pull(), train_alone()
    loss, alone = loss_of(weights), loss_of(expected)
    difference = np.abs(weights - expected).max() if sync else max(0.0, loss - alone)
    print(f"worker {rank} of {workers}: loss {loss:.9f}", flush=True)
    print(f"one process: loss {alone:.9f}  difference {difference:.1e}", flush=True)
    if difference > (1e-9 if sync else 0.15 * alone):
        raise SystemExit("what the workers trained differs from one process")


if __name__ == "__main__":
    main()

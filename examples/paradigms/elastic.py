"""Data parallel by members that come and go, none of whom starts anew when others do.

Rank 0 holds the weights and stays to the end. At every step whoever is there gets the weights and a
shard of the digits, and sends a gradient; a step that somebody left is done again by the rest. So the
weights equal those of one process, however many there were. Exits with 1 when they do not.
`--sizes 2,4,2` goes on until there have been so many members, one number after the other.
"""

import argparse
import os
import signal
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Client, Connection, Listener
from typing import Any

import numpy as np
from parameter_server import KEY, RATE, data, gradient_of, loss_of

CONNECT_S = 60.0  # for rank 0 to listen
STEP_S = 0.05  # as long as one of a larger model takes
GONE = (EOFError, OSError)


class Members:
    """Who is there, besides rank 0."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._listener = Listener(address, authkey=KEY)
        self._lock = threading.Lock()
        self._coming: list[Connection] = []
        self._there: list[Connection] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def step(self, weights: np.ndarray) -> tuple[np.ndarray, int]:
        """The gradient over all digits, and how many made it."""
        with self._lock:
            self._there, self._coming = self._there + self._coming, []
        while True:
            there, count = list(self._there), len(self._there) + 1
            for shard, member in enumerate(there, start=1):
                self._try(member, lambda m, at=shard, of=count: m.send((weights, at, of)))
            total = gradient_of(weights, *data(0, count))
            for member in there:
                gradient = self._try(member, lambda m: m.recv())
                total = total + gradient if gradient is not None else total
            if len(self._there) == len(there):
                return total, count

    def dismiss(self) -> None:
        for member in self._there:
            self._try(member, lambda m: m.send(None))

    def _try(self, member: Connection, what: Callable[[Connection], Any]) -> Any:
        """Nothing from one that leaves, or has gone."""
        try:
            answer = what(member)
        except GONE:
            answer = "gone"
        if isinstance(answer, str):
            self._there = [other for other in self._there if other is not member]
            return None
        return answer

    def _accept(self) -> None:
        while True:
            try:
                member = self._listener.accept()
            except Exception as error:  # somebody who is not of this gang
                print(f"not let in: {type(error).__name__}", flush=True)
                continue
            with self._lock:
                self._coming.append(member)


def lead(members: Members, steps: int, sizes: list[int]) -> tuple[np.ndarray, int]:
    """The trained weights, and after how many steps."""
    weights, done, last = np.zeros((64, 10)), 0, 0
    while done < steps or sizes:
        gradient, count = members.step(weights)
        weights, done = weights - RATE * gradient, done + 1
        if count != last:
            print(f"step {done}: {count} members", flush=True)
        if sizes and count == sizes[0]:
            sizes.pop(0)
        last = count
        time.sleep(STEP_S)
    members.dismiss()
    return weights, done


def follow(address: tuple[str, int]) -> None:
    """Work for rank 0 until it has enough, or until this member is asked to leave."""
    leaving = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: leaving.set())
    leader = connect(address)
    while (given := leader.recv()) is not None:
        if leaving.is_set():
            leader.send("leaves")
            return
        weights, shard, shards = given
        leader.send(gradient_of(weights, *data(shard, shards)))


def connect(address: tuple[str, int]) -> Connection:
    deadline = time.monotonic() + CONNECT_S
    while True:
        try:
            return Client(address, authkey=KEY)
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--sizes", default="")
    asked = parser.parse_args()
    rank, pid = os.environ["HEADRACE_NODE_RANK"], os.getpid()
    address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    print(f"rank {rank} begins as pid {pid}", flush=True)
    if rank != "0":
        follow(address)
        print(f"rank {rank} ends as pid {pid}", flush=True)
        return
    sizes = [int(size) for size in filter(None, asked.sizes.split(","))]
    weights, steps = lead(Members(address), asked.steps, sizes)
    expected = np.zeros((64, 10))
    for _ in range(steps):
        expected = expected - RATE * gradient_of(expected, *data())
    difference = np.abs(weights - expected).max()
    print(f"rank 0 ends as pid {pid}: {steps} steps, loss {loss_of(weights):.9f}", flush=True)
    print(f"one process: loss {loss_of(expected):.9f}  difference {difference:.1e}", flush=True)
    if difference > 1e-9:
        raise SystemExit("what the members trained differs from one process")


if __name__ == "__main__":
    main()

"""Data-parallel training in numpy: every rank holds a shard of the digits, gradients are summed over
sockets, and the result equals training in one process.

Reads what any launcher sets: MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE. Without them it runs alone.
"""

import argparse
import os
import socket
import struct
import time

import numpy as np
from sklearn.datasets import load_digits

CLASSES = 10
CONNECT_S = 30.0  # how long ranks wait for rank 0 to listen


class Ranks:
    """Sums arrays over all ranks: everybody sends to rank 0, which adds in rank order and answers."""

    def __init__(self) -> None:
        self.rank = int(os.environ.get("RANK", "0"))
        self.world_size = int(os.environ.get("WORLD_SIZE", "1"))
        self.peers: list[socket.socket] = []
        address = (
            os.environ.get("MASTER_ADDR", "127.0.0.1"),
            int(os.environ.get("MASTER_PORT", "0")),
        )
        if self.world_size > 1 and self.rank == 0:
            self.peers = self._accept(address)
        elif self.world_size > 1:
            self.peers = [self._connect(address)]

    def all_reduce(self, array: np.ndarray) -> np.ndarray:
        """The element-wise sum over all ranks, the same bits on every rank."""
        if self.world_size == 1:
            return array
        if self.rank:
            self.peers[0].sendall(array.tobytes())
            return self._receive(self.peers[0], array)
        total = array.copy()
        for peer in self.peers:
            total += self._receive(peer, array)
        for peer in self.peers:
            peer.sendall(total.tobytes())
        return total

    def _accept(self, address: tuple[str, int]) -> list[socket.socket]:
        listener = socket.create_server(address)
        peers: dict[int, socket.socket] = {}
        while len(peers) < self.world_size - 1:
            peer, _ = listener.accept()
            (rank,) = struct.unpack("!i", peer.recv(4, socket.MSG_WAITALL))
            peers[rank] = peer
        return [peers[rank] for rank in sorted(peers)]

    def _connect(self, address: tuple[str, int]) -> socket.socket:
        deadline = time.monotonic() + CONNECT_S
        while True:
            try:
                peer = socket.create_connection(address, timeout=CONNECT_S)
            except ConnectionRefusedError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
                continue
            peer.sendall(struct.pack("!i", self.rank))
            return peer

    @staticmethod
    def _receive(peer: socket.socket, like: np.ndarray) -> np.ndarray:
        data = peer.recv(like.nbytes, socket.MSG_WAITALL)
        return np.frombuffer(data, like.dtype).reshape(like.shape)


def train(steps: int, ranks: Ranks | None) -> float:
    """Softmax regression by full-batch gradient descent; the last loss over all samples."""
    digits = load_digits()
    images, labels = digits.data / 16.0, np.eye(CLASSES)[digits.target]
    total = len(images)
    if ranks is not None:
        images = images[ranks.rank :: ranks.world_size]
        labels = labels[ranks.rank :: ranks.world_size]
    weights = np.zeros((images.shape[1], CLASSES))
    loss = np.zeros(1)
    for step in range(steps):
        scores = images @ weights
        scores -= scores.max(axis=1, keepdims=True)
        chances = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        loss = -np.log((chances * labels).sum(axis=1)).sum(keepdims=True)
        gradient = images.T @ (chances - labels)
        if ranks is not None:
            loss, gradient = ranks.all_reduce(loss), ranks.all_reduce(gradient)
            if ranks.rank == 0 and step % 10 == 0:
                print(f"step {step} loss {loss[0] / total:.6f}", flush=True)
        weights -= 0.5 * gradient / total
    return float(loss[0] / total)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()
    ranks = Ranks()
    together = train(options.steps, ranks)
    print(f"rank {ranks.rank} of {ranks.world_size} on {socket.gethostname()}: loss {together:.9f}")
    if ranks.rank == 0:
        alone = train(options.steps, None)
        print(f"one process: loss {alone:.9f}  difference {abs(alone - together):.1e}")
        if abs(alone - together) > 1e-6:
            raise SystemExit("the distributed loss differs from the one-process loss")


if __name__ == "__main__":
    main()

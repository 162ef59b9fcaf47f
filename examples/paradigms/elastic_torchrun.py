"""Data parallel under an elastic torchrun, whose launchers live on while nodes come and go.

PyTorch starts every process anew when the members change, so each node keeps a checkpoint, and
whoever has the newest gives it to the others. Every step has the gradient over
all digits, so the weights equal those of one process, however many there were. Exits with 1 when
they do not. `--sizes 2,4,2` goes on until there have been so many nodes, one number after the other.
"""

import argparse
import os
import time
from pathlib import Path
from typing import Any

import torch
from sklearn.datasets import load_digits
from torch import distributed
from torch.nn.functional import cross_entropy, one_hot

RATE = 0.5
STEP_S = 0.05  # as long as one of a larger model takes


def checkpoint() -> Path:
    """Where this node keeps its own: in its working folder or on the volume that the job names."""
    folder = Path(os.environ.get("HEADRACE_CHECKPOINT_DIR", "."))
    return folder / f"node{os.environ['HEADRACE_NODE_RANK']}.pt"


def gradient_of(weights: torch.Tensor, shard: int, shards: int) -> torch.Tensor:
    """One shard's part of the gradient over all digits."""
    digits = load_digits()
    images = torch.tensor(digits.data / 16.0)[shard::shards]
    labels = one_hot(torch.tensor(digits.target), 10)[shard::shards].to(images.dtype)
    return images.T @ (torch.softmax(images @ weights, 1) - labels) / len(digits.target)


def loss_of(weights: torch.Tensor) -> float:
    digits = load_digits()
    images = torch.tensor(digits.data / 16.0)
    return float(cross_entropy(images @ weights, torch.tensor(digits.target)))


def resumed(sizes: list[int]) -> dict[str, Any]:
    """The newest checkpoint of all members, or the beginning."""
    state = {"step": 0, "sizes": sizes, "weights": torch.zeros(64, 10, dtype=torch.float64)}
    if checkpoint().exists():
        state = torch.load(checkpoint())
    steps: list[int] = [0] * distributed.get_world_size()
    distributed.all_gather_object(steps, state["step"])
    newest = [state]
    distributed.broadcast_object_list(newest, src=steps.index(max(steps)))
    return newest[0]


def save(state: dict[str, Any]) -> None:
    """All of it or nothing, by one process of each node."""
    if os.environ["LOCAL_RANK"] == "0":
        new = checkpoint().with_suffix(".new")
        torch.save(state, new)
        new.replace(checkpoint())


def train(state: dict[str, Any], steps: int) -> torch.Tensor:
    rank, world_size = distributed.get_rank(), distributed.get_world_size()
    nodes = world_size // int(os.environ["LOCAL_WORLD_SIZE"])
    if rank == 0:
        print(f"step {state['step']}: {nodes} members", flush=True)
    if state["sizes"][:1] == [nodes]:
        state["sizes"] = state["sizes"][1:]
    weights = state["weights"]
    while state["step"] < steps or state["sizes"]:
        gradient = gradient_of(weights, rank, world_size)
        distributed.all_reduce(gradient)
        weights -= RATE * gradient
        state["step"] += 1
        save(state)
        time.sleep(STEP_S)
    return weights


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--sizes", default="")
    asked = parser.parse_args()
    node, launcher = os.environ["HEADRACE_NODE_RANK"], os.getppid()
    print(f"rank {node} begins as pid {launcher}", flush=True)
    torch.set_num_threads(1)
    distributed.init_process_group("gloo")
    state = resumed([int(size) for size in filter(None, asked.sizes.split(","))])
    weights = train(state, asked.steps)
    if distributed.get_rank() == 0:
        alone = torch.zeros(64, 10, dtype=torch.float64)
        for _ in range(state["step"]):
            alone -= RATE * gradient_of(alone, 0, 1)
        difference = float((weights - alone).abs().max())
        print(f"{state['step']} steps: loss {loss_of(weights):.9f}", flush=True)
        print(f"one process: loss {loss_of(alone):.9f}  difference {difference:.1e}", flush=True)
        if difference > 1e-9:
            raise SystemExit("what the members trained differs from one process")
    distributed.barrier()
    print(f"rank {node} ends as pid {launcher}", flush=True)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()

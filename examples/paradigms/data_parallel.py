"""PyTorch's twin of allreduce.py: DistributedDataParallel over gloo, compared with one process."""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import distributed
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel


def train(steps: int, rank: int, world_size: int, *, distribute: bool) -> float:
    digits = load_digits()
    images = torch.tensor(digits.data / 16.0)
    labels = torch.tensor(digits.target)
    count = len(images) // world_size * world_size  # equal shards, so that means of means agree
    everything = (images[:count], labels[:count])
    model = torch.nn.Linear(64, 10, dtype=torch.float64)
    torch.nn.init.zeros_(model.weight)
    torch.nn.init.zeros_(model.bias)
    trained = DistributedDataParallel(model) if distribute else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    part = slice(rank, None, world_size) if distribute else slice(None)
    for _ in range(steps):
        optimizer.zero_grad()
        cross_entropy(trained(everything[0][part]), everything[1][part]).backward()
        optimizer.step()
    with torch.no_grad():
        return float(cross_entropy(model(everything[0]), everything[1]))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=30)
    options = parser.parse_args()
    torch.set_num_threads(1)
    distributed.init_process_group("gloo")
    rank, world_size = distributed.get_rank(), distributed.get_world_size()
    together = train(options.steps, rank, world_size, distribute=True)
    print(f"rank {rank} of {world_size}: loss {together:.9f}")
    if rank == 0:
        alone = train(options.steps, 0, world_size, distribute=False)
        print(f"one process: loss {alone:.9f}  difference {abs(alone - together):.1e}")
        if abs(alone - together) > 1e-6:
            raise SystemExit("the distributed loss differs from the one-process loss")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()

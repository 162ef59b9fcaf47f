"""Model parallel: the first layers on rank 0, the others on rank 1; compared with one process.

Activations go forward and their gradients back over PyTorch's send and receive.
"""

import torch
from sklearn.datasets import load_digits
from torch import distributed
from torch.nn.functional import cross_entropy

STEPS, HIDDEN, ROWS = 30, 32, 1_600


def layers() -> tuple[torch.nn.Module, torch.nn.Module]:
    torch.manual_seed(1)
    first = torch.nn.Sequential(torch.nn.Linear(64, HIDDEN), torch.nn.Tanh())
    return first.double(), torch.nn.Linear(HIDDEN, 10).double()


def train_alone(images: torch.Tensor, labels: torch.Tensor) -> float:
    first, second = layers()
    optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.5)
    loss = torch.zeros(())
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = cross_entropy(second(first(images)), labels)
        loss.backward()
        optimizer.step()
    return loss.item()


def train_first(first: torch.nn.Module, images: torch.Tensor) -> None:
    optimizer = torch.optim.SGD(first.parameters(), lr=0.5)
    for _ in range(STEPS):
        optimizer.zero_grad()
        hidden = first(images)
        distributed.send(hidden.detach(), 1)
        gradient = torch.empty_like(hidden)
        distributed.recv(gradient, 1)
        hidden.backward(gradient)
        optimizer.step()


def train_second(second: torch.nn.Module, labels: torch.Tensor) -> float:
    optimizer = torch.optim.SGD(second.parameters(), lr=0.5)
    loss = torch.zeros(())
    for _ in range(STEPS):
        optimizer.zero_grad()
        hidden = torch.empty(ROWS, HIDDEN, dtype=torch.float64)
        distributed.recv(hidden, 0)
        loss = cross_entropy(second(hidden.requires_grad_()), labels)
        loss.backward()
        distributed.send(hidden.grad, 0)
        optimizer.step()
    return loss.item()


def main() -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo")
    digits = load_digits()
    images, labels = torch.tensor(digits.data[:ROWS] / 16.0), torch.tensor(digits.target[:ROWS])
    first, second = layers()
    if distributed.get_rank() == 0:
        train_first(first, images)
    else:
        together, alone = train_second(second, labels), train_alone(images, labels)
        print(f"rank 1 of 2: loss {together:.9f}")
        difference = abs(together - alone)
        print(f"one process: loss {alone:.9f}  difference {difference:.1e}")
        if difference > 1e-9:
            raise SystemExit("the divided model's loss differs from the one-process loss")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()

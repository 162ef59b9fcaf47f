"""DataParallel: one process, a replica of the model on each of its GPUs; compared with one device.

Without GPUs PyTorch's DataParallel has one replica, the model itself; with them it has one each.
"""

import torch
from sklearn.datasets import load_digits
from torch.nn.functional import cross_entropy

STEPS = 30


def train(*, spread: bool) -> tuple[float, torch.Tensor]:
    torch.manual_seed(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    digits = load_digits()
    images = torch.tensor(digits.data / 16.0, device=device)
    labels = torch.tensor(digits.target, device=device)
    model = torch.nn.Linear(64, 10, dtype=torch.float64, device=device)
    trained = torch.nn.DataParallel(model) if spread else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    loss = torch.zeros(())
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = cross_entropy(trained(images), labels)
        loss.backward()
        optimizer.step()
    return loss.item(), model.weight.detach()


def main() -> None:
    loss, weights = train(spread=True)
    alone, expected = train(spread=False)
    difference = float((weights - expected).abs().max())
    replicas = max(1, torch.cuda.device_count())
    print(f"{replicas} replicas in one process: loss {loss:.9f}")
    print(f"one device: loss {alone:.9f}  difference {difference:.1e}")
    if difference > 1e-6:
        raise SystemExit("the replicas' weights differ from one device's")


if __name__ == "__main__":
    main()

"""DeepSpeed (ZeRO stage 1) over all processes of the gang, compared with PyTorch in one process."""

import deepspeed
import torch
from sklearn.datasets import load_digits
from torch import distributed
from torch.nn.functional import cross_entropy

STEPS, ROWS = 20, 1_600


def model() -> torch.nn.Module:
    torch.manual_seed(1)
    return torch.nn.Linear(64, 10)


def main() -> None:
    torch.set_num_threads(1)
    deepspeed.init_distributed("gloo")
    rank, world_size = distributed.get_rank(), distributed.get_world_size()
    digits = load_digits()
    images = torch.tensor(digits.data[:ROWS] / 16.0, dtype=torch.float32)
    labels = torch.tensor(digits.target[:ROWS])
    trained, alone = model(), model()
    engine, *_ = deepspeed.initialize(
        model=trained,
        optimizer=torch.optim.SGD(trained.parameters(), lr=0.5),
        config={
            "train_micro_batch_size_per_gpu": ROWS // world_size,
            "zero_optimization": {"stage": 1},
            "zero_allow_untested_optimizer": True,
        },
    )
    optimizer = torch.optim.SGD(alone.parameters(), lr=0.5)
    for _ in range(STEPS):
        engine.backward(cross_entropy(engine(images[rank::world_size]), labels[rank::world_size]))
        engine.step()
        optimizer.zero_grad()
        cross_entropy(alone(images), labels).backward()
        optimizer.step()
    with torch.no_grad():
        together = cross_entropy(trained(images), labels).item()
        expected = cross_entropy(alone(images), labels).item()
    difference = float((trained.weight - alone.weight).abs().max())
    print(f"rank {rank} of {world_size}: loss {together:.9f}", flush=True)
    if rank == 0:
        print(f"one process: loss {expected:.9f}  difference {difference:.1e}", flush=True)
        if difference > 1e-5:
            raise SystemExit("DeepSpeed's weights differ from the one-process weights")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()

"""Pipeline parallel: a stage per rank, micro-batches through all of them; compared with one process.

With `--replicas R` it is a hybrid: R pipelines, each on its part of the data, whose gradients are
averaged. Stages are consecutive ranks.
"""

import argparse
import itertools

import torch
from sklearn.datasets import load_digits
from torch import distributed
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.nn.functional import cross_entropy

STEPS, HIDDEN, ROWS, MICRO_BATCHES = 20, 32, 1_600, 4


def stages(count: int) -> list[torch.nn.Module]:
    torch.manual_seed(1)
    widths = [64, *[HIDDEN] * (count - 1), 10]
    built = [torch.nn.Linear(*pair).double() for pair in itertools.pairwise(widths)]
    return [torch.nn.Sequential(torch.nn.Tanh(), layer) for layer in built]


def train_alone(count: int, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    model = torch.nn.Sequential(*stages(count))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(STEPS):
        optimizer.zero_grad()
        cross_entropy(model(images), labels).backward()
        optimizer.step()
    return next(model[-1].parameters()).detach()


def train_together(
    replicas: int, images: torch.Tensor, labels: torch.Tensor
) -> tuple[int, torch.Tensor]:
    rank, world_size = distributed.get_rank(), distributed.get_world_size()
    depth = world_size // replicas
    replica, stage = divmod(rank, depth)
    pipelines = [
        distributed.new_group(list(range(r * depth, (r + 1) * depth))) for r in range(replicas)
    ]
    same_stage = [distributed.new_group(list(range(s, world_size, depth))) for s in range(depth)]
    module = stages(depth)[stage]
    mine, answers = images[replica::replicas], labels[replica::replicas]
    device = torch.device("cpu")
    built = PipelineStage(module, stage, depth, device, group=pipelines[replica])
    schedule = ScheduleGPipe(built, MICRO_BATCHES, loss_fn=cross_entropy)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
    for _ in range(STEPS):
        optimizer.zero_grad()
        given = (mine,) if stage == 0 else ()
        schedule.step(*given, target=answers if stage == depth - 1 else None)
        for parameter in module.parameters():
            distributed.all_reduce(parameter.grad, group=same_stage[stage])
            parameter.grad /= replicas
        optimizer.step()
    return depth, next(module.parameters()).detach()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--replicas", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    distributed.init_process_group("gloo")
    digits = load_digits()
    images, labels = torch.tensor(digits.data[:ROWS] / 16.0), torch.tensor(digits.target[:ROWS])
    depth, weights = train_together(options.replicas, images, labels)
    rank, world_size = distributed.get_rank(), distributed.get_world_size()
    print(f"rank {rank} of {world_size}: stage {rank % depth} of {depth}", flush=True)
    if rank == world_size - 1:
        difference = float((weights - train_alone(depth, images, labels)).abs().max())
        print(f"one process: the last stage's weights  difference {difference:.1e}", flush=True)
        if difference > 1e-9:
            raise SystemExit("the pipeline's weights differ from the one-process weights")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()

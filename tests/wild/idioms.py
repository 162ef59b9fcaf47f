"""What people bring: how they start it, the program, and what it says when all went well.

Rule: each is written after the documentation of the library or site that it names, and says itself
what it found; a `script` is submitted by `headrace sbatch`, a `job` is a job file beside the program.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Idiom(NamedTuple):
    """`says` must be in what it wrote, each so often."""

    name: str
    program: str
    says: dict[str, int]
    job: dict[str, Any] = {}
    script: str = ""
    module: str = ""


TWO_GPUS = {"resources": {"gpus": 2}, "command": "python program.py"}
GANG = {"nodes": 2, "resources": {"gpus": 1}, "command": "python program.py"}

LIGHTNING = """
import lightning, torch
from lightning.pytorch.demos.boring_classes import BoringModel

class Says(BoringModel):
    def on_fit_start(self):
        e = self.trainer.strategy.cluster_environment
        print(f"{type(e).__name__} {self.trainer.world_size}\\n", end="", flush=True)

trainer = lightning.Trainer(accelerator="cpu", devices=2, num_nodes=%d, strategy="ddp", max_steps=2,
    logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
trainer.fit(Says())
"""
ACCELERATE = """
from accelerate import Accelerator
a = Accelerator(cpu=True)
print(f"{a.distributed_type.value} {a.process_index}/{a.num_processes}", flush=True)
"""
JAX = """
import jax
jax.distributed.initialize()
print(f"jax {jax.process_index()}/{jax.process_count()}", flush=True)
"""
TENSORFLOW = """
import tensorflow as tf
r = tf.distribute.cluster_resolver.%s(%s)
all_of_them = r.cluster_spec().num_tasks("worker")
print(f"{r.task_type} {r.task_id} of {all_of_them}", flush=True)
"""
RAY = """
import ray
ray.init(num_cpus=1, include_dashboard=False)
print("ray", ray.get(ray.remote(lambda: 41).remote()) + 1, ray.cluster_resources()["CPU"], flush=True)
"""
DETR = """
import os, torch.distributed as dist
if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
elif "SLURM_PROCID" in os.environ:
    rank, world = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
dist.init_process_group("gloo", rank=rank, world_size=world)
import torch
total = torch.ones(1) * rank
dist.all_reduce(total)
print(f"sum {int(total)} of {world}", flush=True)
"""
TORCHRUN = """
import torch.distributed as dist
dist.init_process_group("gloo")
print(f"rank {dist.get_rank()} of {dist.get_world_size()}", flush=True)
"""
FIRST_NODE = """#!/bin/bash
#SBATCH --job-name=train --nodes=2 --ntasks-per-node=%d --gpus-per-node=2 --time=10
#SBATCH --mail-type=END --output=logs/%%x_%%j.out
%s
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_PORT=$((20000 + SLURM_JOB_ID %% 10000))
%s
"""
SUBMITIT = """
import submitit, sys
executor = submitit.SlurmExecutor(folder=sys.argv[1])
executor.update_parameters(time=5, gpus_per_node=1)
job = executor.submit(pow, 2, 10)
print("submitit", job.result(), flush=True)
"""

IDIOMS = (
    Idiom("Lightning, ddp on two GPUs", LIGHTNING % 1, {"LightningEnvironment 2": 2}, TWO_GPUS,
          module="lightning"),
    Idiom("Lightning, srun", LIGHTNING % 2, {"SLURMEnvironment 4": 4}, module="lightning",
          script=FIRST_NODE % (2, "", "srun python program.py")),
    Idiom("Accelerate, alone", ACCELERATE, {"NO 0/1": 1}, TWO_GPUS, module="accelerate"),
    Idiom("Accelerate, torchrun", ACCELERATE, {"MULTI_CPU": 2},
          TWO_GPUS | {"command": "torchrun program.py"}, module="accelerate"),
    Idiom("JAX, framework: jax", JAX, {"jax 0/2": 1, "jax 1/2": 1}, GANG | {"framework": "jax"},
          module="jax"),
    Idiom("JAX, srun", JAX, {"jax 0/2": 1, "jax 1/2": 1}, module="jax",
          script=FIRST_NODE % (1, "unset XLA_FLAGS", "srun python program.py")),
    Idiom("TensorFlow, TF_CONFIG", TENSORFLOW % ("TFConfigClusterResolver", ""),
          {"worker 0 of 2": 1, "worker 1 of 2": 1}, GANG, module="tensorflow"),
    Idiom("TensorFlow, srun", TENSORFLOW % ("SlurmClusterResolver", "gpus_per_node=1, gpus_per_task=1, auto_set_gpu=False"),
          {"worker 0 of 2": 1, "worker 1 of 2": 1}, module="tensorflow",
          script=FIRST_NODE % (1, "", "srun python program.py")),
    Idiom("Ray of its own", RAY, {"ray 42 1.0": 1}, TWO_GPUS, module="ray"),
    Idiom("DETR's ranks, srun", DETR, {"sum 6 of 4": 4}, module="torch",
          script=FIRST_NODE % (2, "", "srun python program.py")),
    Idiom("torchrun under srun", TORCHRUN, {" of 4": 4}, module="torch",
          script=FIRST_NODE % (1, "", ("srun torchrun --nnodes=$SLURM_NNODES --nproc-per-node=2"
          " --rdzv-backend=c10d --rdzv-endpoint=$MASTER_ADDR:$MASTER_PORT --rdzv-id=$SLURM_JOB_ID"
          " program.py"))),
)  # fmt: skip

"""How fast a gang starts: 32 processes after their placement, and PyTorch's rendezvous beside one
that is started by hand.
"""

from __future__ import annotations

import contextlib
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path

from tests.frameworks.running import Examples

from headrace.testing import RunningPlatform

ROUNDS = 3  # each way, in turn, so that both see the same machine
MEET = Path(__file__).with_name("meet.py")
COMMAND = f"echo began $(date +%s.%N); exec torchrun {MEET}"

_BEGAN, _MET = re.compile(r"began ([0-9.]+)"), re.compile(r"met ([0-9.]+)")


def started_s(platform: RunningPlatform) -> float:
    """From the placement of 32 processes on two nodes until the last of them runs."""
    document = {
        "name": "ranks",
        "command": [sys.executable, "-c", "import time; print('here', time.time())"],
        "nodes": 2,
        "resources": {"gpus": 16},
        "processes_per_node": "per-gpu",
    }
    client = platform.client()
    job = client.submit(document).job
    platform.ended(job)
    timeline = client.job(job).timeline
    placed_us = next(event.at_us for event in timeline if event.type.startswith("gang.placed"))
    started = [e.data["at_us"] for e in timeline if e.type.startswith("attempt.started")]
    return (max(started) - placed_us) / 1e6


def rendezvous_s(examples: Examples) -> tuple[float, float]:
    """From the start of the first torchrun until all four processes have met: as a job, and by hand.
    Medians.
    """
    rounds = [(_as_job(examples), _by_hand(examples.env)) for _ in range(ROUNDS)]
    job, hand = zip(*rounds, strict=True)
    return statistics.median(job), statistics.median(hand)


def _as_job(examples: Examples) -> float:
    document = {"name": "meet", "framework": "pytorch", "command": COMMAND, "nodes": 2}
    job = examples.submit(document | {"resources": {"gpus": 2}})
    examples.ended(job)
    return _met_s(examples.output(job))


def _by_hand(env: dict[str, str]) -> float:
    told = {"PET_NNODES": "2", "PET_NPROC_PER_NODE": "2", "PET_MASTER_ADDR": "127.0.0.1"}
    told["PET_MASTER_PORT"] = str(_free_port())
    with contextlib.ExitStack() as stack:
        both = [
            stack.enter_context(
                subprocess.Popen(
                    ["/bin/bash", "-c", COMMAND],
                    env={**os.environ, **env, **told, "PET_NODE_RANK": str(node)},
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    text=True,
                )
            )
            for node in range(2)
        ]
        return _met_s("".join(one.communicate()[0] for one in both))


def _met_s(output: str) -> float:
    began, met = (list(map(float, found.findall(output))) for found in (_BEGAN, _MET))
    if len(began) != 2 or len(met) != 4:
        print(output)
        return float("nan")
    return max(met) - min(began)


def _free_port() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])

"""The check of the container engine: whether there is one, and whether it shows GPUs.

Rule: nothing here is more than a warning. A node without an engine runs every job that has no image.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from headrace.doctor import Check, ok, warning
from headrace.node_agent.containers.facts import Facts

NAME = "engine"
ASKED_S = 10.0
FOR_IMAGES = "for jobs with image:"

Ask = Callable[[str], Coroutine[Any, Any, Facts]]


def check_engine(address: str, root: Path, ask: Ask | None = None) -> Check:
    """Of the engine at `unix:///path`; empty: the agent uses none. `root` is `/`, or a stand-in."""
    if not address:
        fix = f"{FOR_IMAGES} apt-get install docker.io, or let the agent read and write its socket"
        return ok(NAME, f"none: no jobs with an image run here ({fix})")
    path = address.removeprefix("unix://")
    if not os.access(path, os.R_OK | os.W_OK):
        fix = f"{FOR_IMAGES} systemctl enable --now docker, and let the agent use {path}"
        return warning(NAME, f"{path} is not there, or not ours to use", fix)
    try:
        facts = asyncio.run(asyncio.wait_for((ask or _asked)(address), ASKED_S))
    except ImportError:
        return warning(NAME, "its client is not installed", "pip install 'headrace[agent]'")
    except Exception as error:  # whatever the client makes of a socket that is not an engine's
        why = str(error).partition(" [")[0] or type(error).__name__
        return warning(NAME, f"does not answer: {why}", "systemctl restart docker")
    return _judged(facts, has_gpus=(root / "proc/driver/nvidia/version").exists())


def facts_of(address: str, ask: Ask | None = None) -> Facts | None:
    """What the engine there says of itself; None where none answers (`check_engine` says why)."""
    if not address:
        return None
    try:
        return asyncio.run(asyncio.wait_for((ask or _asked)(address), ASKED_S))
    except Exception:
        return None


def _judged(facts: Facts, *, has_gpus: bool) -> Check:
    if facts.lack:
        fix = f"{FOR_IMAGES} Docker's own engine, as root: systemctl enable --now docker"
        return warning(NAME, facts.lack, fix)
    by_cdi = any(name.startswith("nvidia.com/gpu=") for name in facts.cdi)
    if has_gpus and not by_cdi and "nvidia" not in facts.runtimes:
        fix = (
            "install nvidia-container-toolkit, then nvidia-ctk runtime configure"
            " --runtime=docker && systemctl restart docker"
        )
        return warning(NAME, f"{facts.title} shows GPUs by their device files only", fix)
    if not facts.live_restore:
        fix = 'put {"live-restore": true} into /etc/docker/daemon.json; systemctl reload docker'
        return warning(NAME, f"{facts.title}: jobs are lost when it restarts", fix)
    if not has_gpus:
        return ok(NAME, facts.title)
    return ok(NAME, f"{facts.title}, GPUs by {'CDI' if by_cdi else 'the NVIDIA runtime'}")


async def _asked(address: str) -> Facts:
    from headrace.node_agent.containers.engine import Engine  # only where there is an engine

    engine = Engine(address)
    try:
        return await engine.facts()
    finally:
        await engine.close()

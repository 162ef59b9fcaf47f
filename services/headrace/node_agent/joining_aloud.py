"""Joining as a person sees it: what the machine has, and what happens next."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from headrace.client.errors import ClientError
from headrace.node_agent.devices import Devices
from headrace.node_agent.devices.choosing import devices_of
from headrace.node_agent.isolation.accounts import COUNT, OWNER, require, reserve
from headrace.node_agent.joining import NotAdmitted, join
from headrace.node_agent.membership import NodeFolder
from headrace.node_agent.settings import NodeSettings

DONE, FAILED, REFUSED = 0, 1, 120
GB = 1_000_000_000


def join_aloud(path: Path, *, reserves: bool = False) -> int:
    """Prove the token of the order in this folder and say what came of it; the exit status. Where it
    `reserves` the accounts for jobs, the machine's own tools know of that afterwards.
    """
    folder = NodeFolder(path)
    try:
        settings = NodeSettings.read()
        order = folder.ordered()
        require(settings.accounts.first)
        devices = devices_of(settings.gpus, order.node, settings.node_dir)
        answer = join(folder, order)
        unreserved = _reserve(settings.accounts.first) if reserves else ""
    except NotAdmitted as error:
        print(error, file=sys.stderr)
        return REFUSED
    except (ClientError, OSError, ValueError) as error:
        print(f"headrace node join: {error}", file=sys.stderr)
        return FAILED
    finally:
        folder.take_back()  # whatever came of it, the token is not kept
    print(f"{order.node} joined: {described(devices, settings)}")
    if unreserved:
        print(f"  {unreserved}")
    if answer.change == "waiting":
        print(
            f"  waiting for approval: headrace node approve {order.node}"
            "      (skip with --auto-approve on the token)"
        )
    return DONE


def _reserve(first: int) -> str:
    """Why that could not be noted, and what to do; empty if it was."""
    try:
        reserve(first)
    except OSError as error:
        line = f"{OWNER}:{first}:{COUNT}"
        return f"{error.filename} is {error.strerror}: put {line} into /etc/subuid and /etc/subgid"
    return ""


def described(devices: Devices, settings: NodeSettings) -> str:
    """The machine in a line: GPUs, cores, memory, labels."""
    kinds = Counter(device.model for device in devices.list())
    gpus = ", ".join(f"{count} × {model}" for model, count in kinds.items()) or "no GPUs"
    labels = " ".join(f"{name}={value}" for name, value in settings.labels.items())
    parts = [gpus, f"{devices.cpu_milli // 1000} cores", f"{devices.memory_bytes // GB} GB"]
    return ", ".join([*parts, f"labels {labels}"] if labels else parts)

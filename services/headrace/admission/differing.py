"""In which fields of the job file two requests differ that came under one key.

Rule: names of fields alone, never a value. What cannot be read any more (an erased project's launch)
is not compared, and what was drawn (ids, trials) says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from headrace.bus.agents import Launch
from headrace.events import Event
from headrace.events.jobs import JobRequested
from headrace.vault.project_keys import ProjectKeys
from headrace.vault.sealing import VaultError, open_sealed

SHOWN_MAX = 8  # names; then there are more

# What the job file calls the fields of its request, of its gang, and of its launch.
FIELDS = {
    "name": "name",
    "template": "template",
    "priority": "priority",
    "preemptible": "preemptibility",
    "protected_minimum": "preemptibility",
    "max_duration_us": "max_duration",
    "replace_after_us": "on_disconnect",
    "secrets": "secrets",
    "kind_of_group": "array or sweep",
    "trials_parallel": "array or sweep",
    "stop_after_failures": "sweep.stop_after_failures",
    "bundle": "workdir",
    "retry": "retry",
    "checkpoint": "checkpoint",
    "inputs": "volumes",
    "after": "after",
    "workspace": "app",
}
GANG = {
    "nodes": "nodes",
    "nodes_max": "nodes",
    "accelerators": "resources.gpus",
    "gpu_memory_bytes": "resources.gpu_memory",
    "cpu_milli": "resources.cpu",
    "memory_bytes": "resources.memory",
    "per_gpu_processes": "processes_per_node",
    "pools": "pools",
    "topology_required": "topology",
    "topology_preferred": "topology",
    "kind": "type",
    "roles": "roles",
    "succeeds_when": "succeeds_when",
    "volumes": "volumes",
    "python": "python",
}
LAUNCH = {
    "command": "command",
    "setup": "setup",
    "workdir": "workdir",
    "framework": "framework",
    "image": "image",
    "shm_bytes": "resources.shm",
    "commands": "roles",
    "mounts": "volumes",
    "outputs": "outputs",
}


async def differing(original: Event, other: Event, keys: ProjectKeys) -> tuple[str, ...]:
    """The fields, in the order of the job file's parts; none when it cannot be told.

    Raises `StoreError`.
    """
    if not isinstance(original, JobRequested) or not isinstance(other, JobRequested):
        return ()
    names = [*_fields(original, other, FIELDS), *_fields(original.gang, other.gang, GANG)]
    launches = [await _launch(each, keys) for each in (original, other)]
    if launches[0] is not None and launches[1] is not None:
        names += _launches(launches[0], launches[1])
    found = tuple(dict.fromkeys(names))
    return found if len(found) <= SHOWN_MAX else (*found[:SHOWN_MAX], "…")


def _fields(one: Any, other: Any, names: dict[str, str]) -> Iterator[str]:
    return (name for field, name in names.items() if getattr(one, field) != getattr(other, field))


def _launches(one: Launch, other: Launch) -> Iterator[str]:
    yield from _fields(one, other, LAUNCH)
    for name in sorted({*one.env, *other.env}):
        if one.env.get(name) != other.env.get(name):
            yield f"env.{name}"


async def _launch(requested: JobRequested, keys: ProjectKeys) -> Launch | None:
    """What it runs; None when it can never be read again."""
    key = await keys.by_id(requested.launch_key) if requested.launch_key else None
    if key is None:
        return None
    try:
        opened = open_sealed(key, requested.launch, f"launch:{requested.job}".encode())
    except VaultError:
        return None
    return msgspec.json.decode(opened, type=Launch)

"""From a scenario's JSON to the scheduler's world."""

from __future__ import annotations

from typing import Any

import msgspec

from headrace.scheduling import gangs
from headrace.scheduling.division import QueueSpec, Ration
from headrace.scheduling.gangs import (
    Constraint,
    Gang,
    Group,
    Nearness,
    Place,
    Role,
    Shape,
    Task,
)
from headrace.scheduling.machines import MachineSpec
from headrace.scheduling.settings import Settings
from headrace.scheduling.world import World

NOW_US = 10**15
UNCOUNTED = 10**9
SECOND_US = 1_000_000
MEGABYTE = 1_000_000
STATES = {
    "Pending": gangs.PENDING,
    "Running": gangs.RUNNING,
    "Pipelined": gangs.PIPELINED,
    "Binding": gangs.RUNNING,
    "Bound": gangs.RUNNING,
    "Allocated": gangs.RUNNING,
    "Releasing": gangs.RELEASING,
    "StuckInReleasing": gangs.STUCK,
    "Succeeded": gangs.SUCCEEDED,
    "Failed": gangs.ENDED,
}
Member = tuple[Gang, dict[str, Any], int, dict[str, Any]]  # with its job, index and JSON
HOLDING = (gangs.RUNNING, gangs.RELEASING, gangs.STUCK, gangs.PIPELINED)


class Record(msgspec.Struct, kw_only=True):
    """Where one task is between two turns."""

    state: str
    node: str | None
    groups: list[str]
    devices: tuple[int, ...] | None = None
    milli: int = 0


def world_of(case: dict[str, Any], records: dict[str, Record]) -> World:
    """The scenario's state as the scheduler sees it."""
    given = case["input"]
    checked = case["k8s_predicates_enabled"]
    specs = {name: _machine(name, node, checked=checked) for name, node in given["nodes"].items()}
    jobs = [_gang(case, job) for job in given["jobs"]]
    members = [
        (gang, job, index, task)
        for gang, job in zip(jobs, given["jobs"], strict=True)
        for index, task in enumerate(job["tasks"])
    ]
    places = _places(members, specs, records, checked=checked)
    for gang, job, index, task in members:
        coming = STATES[records[task["id"]].state] == gangs.PIPELINED
        gang.add(
            Task(
                name=task["id"],
                gang=gang.name,
                shape=_shape(job, task, checked=checked),
                role=task["subgroup"] or "default",
                priority=task["task_priority"] or 0,
                rank=index,
                tags=tuple((task["pod_affinity"] or {}).get("labels", {}).items()),
                state=STATES[records[task["id"]].state],
                place=None if coming else places[task["id"]],
                coming=places[task["id"]] if coming else None,
            )
        )
    queues = {queue["name"]: _queue(queue) for queue in given["queues"]}
    for gang in jobs:
        if gang.any_in(gangs.PLACED):
            gang.started_at_us = NOW_US - 60 * SECOND_US
    return World(list(specs.values()), queues, jobs, now_us=NOW_US, settings=_settings(case))


def _places(
    members: list[Member],
    specs: dict[str, MachineSpec],
    records: dict[str, Record],
    *,
    checked: bool,
) -> dict[str, Place | None]:
    """Where each task is: what is known of shared devices first, then everybody else."""
    taken: dict[str, dict[str, int]] = {name: {} for name in specs}
    used: dict[str, dict[int, int]] = {name: {} for name in specs}
    shared_first = sorted(members, key=lambda m: not _shape(m[1], m[3], checked=checked).is_shared)
    places: dict[str, Place | None] = {}
    for known in (True, False):
        for _, job, _, task in shared_first:
            record = records[task["id"]]
            if (record.devices is not None) == known:
                shape = _shape(job, task, checked=checked)
                places[task["id"]] = _place(record, shape, specs, used, taken)
    return places


def _machine(name: str, node: dict[str, Any], *, checked: bool) -> MachineSpec:
    return MachineSpec(
        name=name,
        devices=node["allocatable_whole_gpus"],
        device_memory_bytes=0 if node["gpu_memory_synced"] is False else node["gpu_memory_mib"],
        cpu_milli=node["cpu_milli"],
        memory_bytes=node["memory_bytes"],
        tasks_max=node["max_pods"] if checked else UNCOUNTED,
        labels={"kai.scheduler/type": name, **node["labels"]},
    )


def _queue(queue: dict[str, Any]) -> QueueSpec:
    rations = [
        Ration(
            quota=_scaled(queue[key]["quota"], unit),
            limit=_scaled(queue[key]["limit"], unit),
            weight=round(queue[key]["over_quota_weight"] * 1000),
        )
        for key, unit in (("gpu", 1000), ("cpu_milli", 1), ("memory_mb", MEGABYTE))
    ]
    after_s = queue["reclaim_min_runtime_s"]
    return QueueSpec(
        queue=queue["name"],
        parent=queue["parent"] or "",
        priority=queue["priority"],
        age=queue["creation_order"],
        rations=(rations[0], rations[1], rations[2]),
        reclaim_after_us=None if after_s is None else round(after_s * SECOND_US),
    )


def _gang(case: dict[str, Any], job: dict[str, Any]) -> Gang:
    grace_s = job.get("staleness_grace_period_s")
    stale_s = job.get("stale_for_s")
    return Gang(
        name=job["name"],
        queue=job["queue"],
        root=_group(job["subgroups"]),
        priority=job["priority"],
        preemptible=job["preemptibility"] == "preemptible",
        age=job["creation_rank"],
        submitted_at_us=NOW_US - job["age_minutes"] * 60 * SECOND_US,
        patience_us=round((job.get("preemption_delay_s") or 0) * SECOND_US),
        stale_since_us=None if stale_s is None else NOW_US - round(stale_s * SECOND_US),
        staleness_grace_us=None if grace_s is None else round(grace_s * SECOND_US),
        tasks={},
        counts={},
    )


def _group(given: dict[str, Any]) -> Group:
    return Group(
        name=given["name"],
        minimum=given["min_sub_group"],
        groups=tuple(_group(inner) for inner in given["groups"]),
        roles=tuple(
            Role(
                name=role["name"],
                minimum=role["min_available"],
                constraint=_constraint(role["topology_constraint"]),
            )
            for role in given["pod_sets"]
        ),
        constraint=_constraint(given["topology_constraint"]),
    )


def _constraint(given: dict[str, Any] | None) -> Constraint | None:
    if given is None or not given["topology"]:
        return None
    return Constraint(
        topology=given["topology"],
        required=given["required_level"] or "",
        preferred=given["preferred_level"] or "",
    )


def _shape(job: dict[str, Any], task: dict[str, Any], *, checked: bool) -> Shape:
    per = job["per_task"]
    gpu = task["gpus"] or per["gpu"]
    near = task["pod_affinity"]
    memory = per["gpu_memory_mib"] or 0
    shared = bool(memory) or 0 < gpu < 1
    return Shape(
        devices=(per["gpu_fraction_devices"] or 1) if shared else int(gpu),
        device_milli=round(gpu * 1000) if shared and not memory else 1000,
        device_memory_bytes=memory,
        cpu_milli=per["cpu_milli"],
        memory_bytes=per["memory_bytes"],
        only=tuple(task["node_affinity_names"]) or None if checked else None,
        near=_near(near) if near and checked else None,
    )


def _near(given: dict[str, Any]) -> Nearness | None:
    together, apart = given["affinity_topology_key"], given["anti_affinity_topology_key"]
    if not together and not apart:
        return None
    return Nearness(
        tags=tuple(given["labels"].items()), with_label=together or "", apart_label=apart or ""
    )


def _place(
    record: Record,
    shape: Shape,
    specs: dict[str, MachineSpec],
    used: dict[str, dict[int, int]],
    taken: dict[str, dict[str, int]],
) -> Place | None:
    """Where a task is, its devices chosen where the scenario only says which it shares."""
    state = STATES[record.state]
    if record.node not in specs or state not in HOLDING:
        return None
    spec = specs[record.node]
    milli = shape.milli_of(spec.device_memory_bytes)
    mine = used[record.node]
    devices = record.devices
    if devices is None:
        free = [d for d in range(spec.devices) if not mine.get(d)]
        if shape.is_shared:
            groups = record.groups or [""]
            devices = tuple(
                taken[record.node].setdefault(group, free.pop(0)) if group not in taken[record.node]
                else taken[record.node][group]
                for group in groups
            )  # fmt: skip
        else:
            devices = tuple(free[: shape.devices])
    for device in devices:
        mine[device] = mine.get(device, 0) + milli
    return Place(
        node=record.node,
        amounts=shape.amounts(spec.device_memory_bytes),
        devices=devices,
        milli=milli,
    )


def _settings(case: dict[str, Any]) -> Settings:
    conf = case["scheduler_conf"] or {}
    plugins = {
        plugin["Name"]: plugin.get("Arguments") or {}
        for tier in conf.get("Tiers", [])
        for plugin in tier["Plugins"]
    }
    placement = plugins.get("nodeplacement", {})
    return Settings(
        policy=placement.get("gpu", "binpack"),
        cpu_policy=placement.get("cpu", "binpack"),
        spread_devices="gpuspread" in plugins,
        levels={t["name"]: tuple(t["levels"]) for t in case["input"].get("topologies", [])},
        staleness_grace_us=case["default_staleness_grace_s"] * SECOND_US,
    )


def _scaled(value: float, unit: int) -> int:
    return -1 if value == -1 else round(value * unit)

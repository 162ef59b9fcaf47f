"""What the engine is told to create for a worker.

Rule: pure. A worker in a container has what one beside it has: the same environment and folders under
the same paths, the same account and limits, and the host's network. That is shared because a gang's
workers meet at the addresses and ports that placement gave them, and because RDMA and NCCL look for
the host's adapters; a network of its own would cost them both. What is the image's stays the image's:
its PATH, its files. Its entry point does not run: `command` is what runs, as the job's account, whoever
the image's `USER` is.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.bus.agents import Assignment, Launch
from headrace.events.nodes import Device
from headrace.node_agent import gang_files
from headrace.node_agent.containers import gpus
from headrace.node_agent.containers.facts import OUTPUT_DRIVER, Facts
from headrace.node_agent.containers.isolation import CONFINED
from headrace.node_agent.enforcement import MPS, Bound
from headrace.node_agent.isolation.accounts import Account
from headrace.node_agent.isolation.cgroups import PERIOD_US, QUOTA_US_MIN, TASKS_MAX
from headrace.node_agent.machine import AttemptKey
from headrace.node_agent.supervision.confinement import OOM_SCORE_ADJ
from headrace.node_agent.supervision.namespaces import SHARED_MEMORY
from headrace.node_agent.supervision.protocol import OUTPUT, REPORTS, STOP_REASON, WORK
from headrace.node_agent.worker_environment import environment_of, processes_of

SETUP_FAILED = "setup-failed"  # a file that is not empty when the setup command failed
SHM_PERMILLE = 500  # of the host's memory, as its own /dev/shm has it
ENGINES_SIGNAL = 3  # above SIGRTMIN: by what the engine ends a container on its own account
OUTPUT_HELD = {"max-size": "64m", "max-file": "3"}  # by the engine, until the agent has it
LABEL_FOLDER, LABEL_JOB, LABEL_ATTEMPT = "headrace.folder", "headrace.job", "headrace.attempt"
LABEL_RANK, LABEL_GRANT, LABEL_NODE = "headrace.rank", "headrace.grant", "headrace.node"


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What a worker's container is made with: the node, its folder, the attempt's folder, how the
    worker is bound to which devices, its account (None: the agent's own, `own`) and what that is
    called (`names`), the `group` above its own ("": the engine's choice), the engine, the `files` it finds in its folder, where in the image it works if not in
    its own folder (`cwd`), its volumes (`mounts`: source, target, whether read only) and what it is
    `told` of them, the host's memory and the mark of the attempt.
    """

    node: str
    node_dir: Path
    folder: Path
    bound: Bound
    devices: Sequence[Device]
    account: Account | None
    own: tuple[int, int]
    group: str
    names: dict[str, str]
    facts: Facts
    files: Mapping[str, tuple[int, str]]
    cwd: str
    mounts: Sequence[tuple[str, str, bool]]
    told: dict[str, str]
    host_memory_bytes: int
    marker: str

    @property
    def shares_memory(self) -> bool:
        """Whether it has the host's /dev/shm, in which clients of MPS meet the daemon."""
        return self.bound.enforcement == MPS


def config_of(
    assignment: Assignment, launch: Launch, around: Surroundings, *, path: str
) -> dict[str, Any]:
    """The body of the engine's create call; `path` is the image's own PATH ("": it sets none)."""
    shown = gpus.shown(around.devices, around.bound.files, around.facts)
    command = list(launch.command) if not launch.setup else _with_setup(launch, around.folder)
    env = environment(assignment, launch, around, path=path) | shown.env
    user, group, others = around.account or (*around.own, [])
    if not user:
        raise ValueError("no job is root in a container: the host's root would be its owner")
    return {
        "Image": launch.image,
        "Entrypoint": command[:1],
        "Cmd": command[1:],
        "Env": [f"{name}={value}" for name, value in env.items()],
        "WorkingDir": around.cwd or str(around.folder / WORK),
        "User": f"{user}:{group}",
        "StopSignal": f"SIGRTMIN+{ENGINES_SIGNAL}",
        "Healthcheck": {"Test": ["NONE"]},  # of the image's: it would run beside the command
        "Labels": labels_of(assignment, around),
        "HostConfig": {
            **_limits(assignment, launch, around),
            "NetworkMode": "host",
            "CgroupParent": around.group,
            "Init": around.facts.init,
            "IpcMode": "private",
            **CONFINED,
            "Mounts": [
                *(_mount(path, path) for path in _paths(around)),
                *(_mount(*mount) for mount in gang_files.shown(around.files, str(around.folder))),
                *(_mount(*mount) for mount in around.mounts),
            ],
            "GroupAdd": [str(other) for other in others],
            "LogConfig": {"Type": OUTPUT_DRIVER, "Config": OUTPUT_HELD},
            "RestartPolicy": {"Name": "no"},
            **shown.host,
            "Devices": [
                *shown.host.get("Devices", []),
                *gpus.mapped(around.facts.device_files.get("rdma", ())),
            ],
        },
    }


def environment(
    assignment: Assignment, launch: Launch, around: Surroundings, *, path: str
) -> dict[str, str]:
    """What the worker is told."""
    base = around.names | {"HOME": str(around.folder / WORK), "PATH": path}
    env = environment_of(
        assignment,
        launch,
        around.bound,
        base=base,
        folder=str(around.folder),
        marker=around.marker,
    )
    return env | around.told | processes_of(assignment, launch, str(around.folder))[0]


def name_of(node_dir: Path, key: AttemptKey) -> str:
    """The container of this worker: two nodes of one machine share its engine."""
    whose = hashlib.sha256(str(node_dir).encode()).hexdigest()[:8]
    return f"headrace-{whose}-{key.job.replace('/', '.')}.{key.attempt}.{key.rank}"


def label_of(node_dir: Path) -> str:
    """What all containers of this node carry."""
    return f"{LABEL_FOLDER}={node_dir}"


def labels_of_node(node_dir: Path) -> dict[str, str]:
    """The same, as an engine takes it."""
    return {LABEL_FOLDER: str(node_dir)}


def labels_of(assignment: Assignment, around: Surroundings) -> dict[str, str]:
    """Whose container it is."""
    return {
        LABEL_FOLDER: str(around.node_dir),
        LABEL_NODE: around.node,
        LABEL_JOB: assignment.job,
        LABEL_ATTEMPT: str(assignment.attempt),
        LABEL_RANK: str(assignment.rank),
        LABEL_GRANT: str(assignment.position),
    }


def key_in(labels: dict[str, str]) -> AttemptKey | None:
    """The attempt whose container carries these; None where they name none."""
    numbers = [labels.get(LABEL_ATTEMPT, ""), labels.get(LABEL_RANK, "")]
    if not labels.get(LABEL_JOB) or not all(number.isdecimal() for number in numbers):
        return None
    return AttemptKey(labels[LABEL_JOB], int(numbers[0]), int(numbers[1]))


def _limits(assignment: Assignment, launch: Launch, around: Surroundings) -> dict[str, Any]:
    """By quota and not by number of CPUs: a node may say that it has more than there are."""
    shared = around.host_memory_bytes * SHM_PERMILLE // 1000
    limits: dict[str, Any] = {
        "PidsLimit": TASKS_MAX,
        "OomScoreAdj": OOM_SCORE_ADJ,
        "ShmSize": launch.shm_bytes or min(shared, assignment.memory_bytes or shared),
    }
    if around.facts.device_files.get("rdma"):  # it pins what it sends
        limits["Ulimits"] = [{"Name": "memlock", "Soft": -1, "Hard": -1}]
    if assignment.memory_bytes:
        limits |= {"Memory": assignment.memory_bytes, "MemorySwap": assignment.memory_bytes}
    if assignment.cpu_milli:
        quota_us = max(QUOTA_US_MIN, assignment.cpu_milli * PERIOD_US // 1000)
        limits |= {"CpuPeriod": PERIOD_US, "CpuQuota": quota_us}
    return limits


def _paths(around: Surroundings) -> list[str]:
    names = (WORK, OUTPUT, REPORTS, STOP_REASON, SETUP_FAILED, *top_of(around.files))
    of_host = [SHARED_MEMORY] if around.shares_memory else []
    return [*(str(around.folder / name) for name in names), *around.bound.folders, *of_host]


def top_of(paths: Iterable[str]) -> list[str]:
    """What these paths have to be found through."""
    return list(dict.fromkeys(path.partition("/")[0] for path in paths))


def _mount(source: str, target: str, is_read_only: bool = False) -> dict[str, Any]:
    mount = {"Type": "bind", "Source": source, "Target": target}
    return mount | {"ReadOnly": True} if is_read_only else mount


def _with_setup(launch: Launch, folder: Path) -> list[str]:
    """One container runs both, so that what is installed stays; a file tells which of them failed."""
    failed = shlex.quote(str(folder / SETUP_FAILED))
    setup, command = shlex.join(launch.setup), shlex.join(launch.command)
    script = f"{setup} || {{ code=$?; echo $code > {failed}; exit $code; }}; exec {command}"
    return ["/bin/sh", "-c", script]

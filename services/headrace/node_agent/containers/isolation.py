"""What keeps a worker in a container from others, in the words of its record; and what the kernel says of
whether that is so.

Rule: an engine is asked to run a worker as the job's account, in the host's user namespace: beside the
host's network, where gangs meet, engines grant no other. That account holds nothing, gains nothing
(no capabilities, no new privileges), and files keep their owner. The image's `USER` is not asked. What
an engine does with the account's number is its own doing, so the kernel is asked once it runs.
"""

from __future__ import annotations

import contextlib

from headrace.node_agent.containers.facts import Facts
from headrace.node_agent.folders import DOCKER
from headrace.node_agent.isolation import (
    ACCOUNT_RECORDED,
    DEVICES_RECORDED,
    LOOPBACK_RECORDED,
    Processes,
)
from headrace.node_agent.isolation.accounts import Account
from headrace.node_agent.isolation.views import NAMESPACES_RECORDED, SHARED_MEMORY_RECORDED
from headrace.node_agent.supervision import kernel

CONFINED = {
    "UsernsMode": "host",
    "CgroupnsMode": "private",
    "SecurityOpt": ["no-new-privileges"],
    "CapDrop": ["ALL"],
}
"""What every container is created with. The engine's defaults add its seccomp profile, masked paths in
/proc and /sys, and the device group."""
SECCOMP_RECORDED = "+seccomp"
STATUS_BYTES_MAX = 16_384


def level_of(
    facts: Facts, account: Account | None, *, loopback: bool = False, shares_memory: bool = False
) -> str:
    """The record of a worker whose container the engine made as it was asked to; `loopback`: in a group
    behind the node's filter; `shares_memory`: with the host's /dev/shm.
    """
    limits = facts.limits or Processes.level
    level = f"{DOCKER}+{limits}" + (ACCOUNT_RECORDED if account is not None else "")
    level += DEVICES_RECORDED + (LOOPBACK_RECORDED if loopback else "") + NAMESPACES_RECORDED
    level += SHARED_MEMORY_RECORDED if shares_memory else ""
    return level + (SECCOMP_RECORDED if facts.seccomp else "")


def foreign_user(users: list[int], user: int) -> str:
    """Why a container whose first process has these users on the host must not run as this one's; empty if
    it may.
    """
    strangers = sorted({found for found in users if found != user})
    if not strangers:
        return ""
    return (
        f"its container ran as uid {strangers[0]} of the host, not as the job's account {user}: the"
        " container engine maps users (userns-remap, rootless); an engine whose users are the"
        " host's runs jobs"
    )


def users_of(pid: int) -> list[int]:
    """The real, effective, saved and file system user of a process, as the host counts; empty when it
    has gone.
    """
    with contextlib.suppress(OSError):
        for line in kernel.read(f"/proc/{pid}/status", STATUS_BYTES_MAX).splitlines():
            if line.startswith(b"Uid:"):
                return [int(word) for word in line.split()[1:]]
    return []

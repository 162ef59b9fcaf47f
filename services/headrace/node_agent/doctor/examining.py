"""All checks of this machine, as a table for people or as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from headrace.doctor import Check, is_well, lines
from headrace.node_agent.devices import nvml
from headrace.node_agent.doctor.engine import check_engine
from headrace.node_agent.doctor.gpus import check_gpus
from headrace.node_agent.doctor.host import (
    check_accounts,
    check_cgroups,
    check_clock,
    check_disk,
    check_ports,
    check_way,
    kernel_adjtimex,
)
from headrace.node_agent.membership import NodeFolder, bus_url
from headrace.node_agent.settings import NodeSettings

ROOT = Path("/")


def examine(head: str, output: str) -> int:
    """Look, and say what was found; 1 when something does not work. `head` is the platform's
    address, when there is one that this machine has not joined.
    """
    checks = list(_checks(NodeSettings.read(), head))
    if output == "json":
        print(msgspec.json.encode(checks).decode())
    else:
        print("\n".join(lines(checks)))
    return int(not is_well(checks))


def _checks(settings: NodeSettings, head: str) -> Iterator[Check]:
    yield from check_gpus(ROOT, nvml.binding())
    yield check_cgroups(ROOT)
    yield check_accounts(settings.accounts)
    yield check_engine(settings.engine, ROOT)
    yield check_clock(kernel_adjtimex)
    yield check_ports(*settings.ports, ROOT)
    yield check_disk(settings.node_dir)
    yield from check_way(_ways(NodeFolder(settings.node_dir), head))


def _ways(folder: NodeFolder, head: str) -> dict[str, str]:
    member = folder.member()
    if member is None:
        return {"head": head} if head else {}
    ways = {"head": head or member.url}
    return {**ways, "bus": bus_url(member)} if member.bus else ways

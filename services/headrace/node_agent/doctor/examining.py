"""All checks of this machine, as a table for people or as JSON."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from headrace.doctor import Check, is_well, lines
from headrace.node_agent.devices import nvml
from headrace.node_agent.doctor import weak_spots
from headrace.node_agent.doctor.engine import check_engine, facts_of
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
from headrace.node_agent.doctor.neighbours import (
    Neighbour,
    agents,
    check_neighbours,
    platform_of,
)
from headrace.node_agent.doctor.trial_job import check_job
from headrace.node_agent.isolation import cgroups, views
from headrace.node_agent.isolation.accounts import ENGINE_SOCKETS
from headrace.node_agent.membership import NodeFolder, bus_url
from headrace.node_agent.settings import NodeSettings

ROOT = Path("/")


def examine(head: str, output: str) -> int:
    """Look, and say what was found; 1 when something does not work. `head` is the platform's
    address, when there is one that this machine has not joined.
    """
    return _tell(list(_checks(NodeSettings.read(), head)), output)


def examine_weak_spots(output: str) -> int:
    """The same of what keeps jobs from each other and others from the agent; 1 when somebody is not
    kept out.
    """
    return _tell(list(_weak_spots(NodeSettings.read())), output)


def _tell(checks: list[Check], output: str) -> int:
    if output == "json":
        print(msgspec.json.encode(checks).decode())
    else:
        print("\n".join(lines(checks)))
    return int(not is_well(checks))


def _checks(settings: NodeSettings, head: str) -> Iterator[Check]:
    yield from check_gpus(ROOT, nvml.binding())
    yield check_cgroups(ROOT, settings.isolation)
    yield check_accounts(settings.accounts)
    yield check_job(settings)
    yield check_engine(settings.engine, ROOT)
    yield check_clock(kernel_adjtimex)
    yield check_ports(*settings.ports, ROOT)
    yield check_disk(settings.node_dir)
    yield from check_way(_ways(NodeFolder(settings.node_dir), head))


def _weak_spots(settings: NodeSettings) -> Iterator[Check]:
    is_root, release = os.geteuid() == 0, os.uname().release
    granted = views.granted()
    yield check_accounts(settings.accounts)
    if is_root:
        folders = (str(settings.node_dir), str(settings.keys_dir))
        own = Neighbour(folders[0], settings.accounts.first, platform_of(folders))
        yield check_neighbours(own, agents())
    yield from weak_spots.check_namespaces(granted, settings.accounts, release)
    is_kept = is_root and cgroups.grants_loopback()
    yield weak_spots.check_loopback(is_root=is_root, is_kept=is_kept)
    yield weak_spots.check_devices(granted, ROOT, is_root=is_root)
    yield weak_spots.check_limits(ROOT, settings.isolation, is_root=is_root)
    yield weak_spots.check_kernel(release)
    yield weak_spots.check_links(ROOT)
    yield weak_spots.check_tracing(ROOT)
    yield weak_spots.check_device_files(ROOT)
    yield from weak_spots.check_engine_socket(settings.engine)
    if (facts := facts_of(settings.engine)) is not None:
        yield from weak_spots.check_containers(facts, is_root=is_root)
    yield from weak_spots.check_mapped(
        settings.accounts.users, (settings.accounts.engine, *ENGINE_SOCKETS)
    )
    yield weak_spots.check_folder(settings.node_dir)
    yield weak_spots.check_programs(_programs())


def _programs() -> list[str]:
    """The interpreter, and the folders it takes modules from."""
    here = os.getcwd()  # which the agent's own start does not search
    return [os.path.realpath(sys.executable), sys.prefix, *(p for p in sys.path if p and p != here)]


def _ways(folder: NodeFolder, head: str) -> dict[str, str]:
    member = folder.member()
    if member is None:
        return {"head": head} if head else {}
    ways = {"head": head or member.url}
    return {**ways, "bus": bus_url(member)} if member.bus else ways

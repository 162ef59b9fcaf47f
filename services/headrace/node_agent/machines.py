"""What runs this node's workers, as its settings have it and its host allows.

Rule: what the host grants is found out here, once, by trying it.
"""

from __future__ import annotations

import logging
import os

from headrace.node_agent.enforcement.enforcer import Enforcer
from headrace.node_agent.isolation import namespaces, ways
from headrace.node_agent.isolation.cgroups import probe
from headrace.node_agent.machine import Machine
from headrace.node_agent.pausing import Driver
from headrace.node_agent.process_machine import ProcessMachine
from headrace.node_agent.settings import NodeSettings
from headrace.node_agent.start_spec import MachineSettings
from headrace.node_agent.supervision.protocol import ATTEMPTS

_LOG = logging.getLogger("headrace.node_agent")


def machine_of(settings: NodeSettings, enforcer: Enforcer, driver: Driver) -> Machine:
    """The machine that runs this node's workers."""
    isolation = probe(settings.node, settings.isolation)
    _LOG.info("jobs are kept apart level=%s", isolation.level)
    has_mounts = namespaces.has_mounts()
    if os.geteuid() == 0 and not has_mounts:
        opened = ways.open_ways([str(settings.node_dir / ATTEMPTS), *ways.programs()])
        _LOG.warning("jobs get no mounts of their own here; may be passed through: %s", opened)
    given = MachineSettings(
        node_dir=settings.node_dir,
        node=settings.node,
        bind=enforcer.bind,
        devices_of=enforcer.devices_of,
        journal=settings.attempt_journal,
        isolation=isolation,
        accounts=settings.accounts,
        has_mounts=has_mounts,
        driver=driver,
        kept=settings.kept,
        output_bytes_max=settings.output_bytes_max,
    )
    if not settings.engine:
        return ProcessMachine(given)
    from headrace.node_agent.executors import executors  # only where there is an engine

    return executors(given, settings.engine, images_bytes_max=settings.images_bytes_max)

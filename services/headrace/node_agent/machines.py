"""What runs this node's workers, as its settings have it and its host allows.

Rule: what the host grants is found out here, once, by trying it.
"""

from __future__ import annotations

import logging
import os

from headrace.node_agent.enforcement.enforcer import Enforcer
from headrace.node_agent.isolation import LOOPBACK_RECORDED, views, ways
from headrace.node_agent.isolation.cgroups import name_of, probe, probe_loopback
from headrace.node_agent.machine import Machine
from headrace.node_agent.pausing import Driver
from headrace.node_agent.process_machine import ProcessMachine
from headrace.node_agent.settings import NodeSettings
from headrace.node_agent.start_spec import MachineSettings
from headrace.node_agent.supervision.protocol import ATTEMPTS

_LOG = logging.getLogger("headrace.node_agent")


def machine_of(settings: NodeSettings, enforcer: Enforcer, driver: Driver) -> Machine:
    """The machine that runs this node's workers."""
    name = name_of(settings.node_dir)
    isolation = probe(name, settings.isolation)
    loopback = probe_loopback(name, isolation)
    hidden = settings.folders_hidden()
    seen = views.probe(settings.node_dir, hidden, settings.shown, settings.accounts.trusted)
    level = f"{isolation.level}{seen.recorded if seen is not None else ''}"
    _LOG.info("jobs are kept apart level=%s%s", level, LOOPBACK_RECORDED if loopback else "")
    if os.geteuid() == 0 and seen is None:
        _LOG.warning("jobs get no mounts of their own here")
        attempts = str(settings.node_dir / ATTEMPTS)
        if closed := ways.open_ways(settings.node_dir, [attempts, *ways.programs()]):
            _LOG.error(
                "jobs need to pass through %s: chmod o+x, or keep the node elsewhere", closed
            )
    given = MachineSettings(
        node_dir=settings.node_dir,
        node=settings.node,
        bind=enforcer.bind,
        devices_of=enforcer.devices_of,
        journal=settings.attempt_journal,
        isolation=isolation,
        views=seen,
        loopback=loopback,
        accounts=settings.accounts,
        driver=driver,
        kept=settings.kept,
        output_bytes_max=settings.output_bytes_max,
    )
    if not settings.engine:
        return ProcessMachine(given)
    from headrace.node_agent.executors import executors  # only where there is an engine

    return executors(given, settings.engine, images_bytes_max=settings.images_bytes_max)

"""The agent's process: connects it, runs it, answers for its health, and leaves workers running.

Rule: one agent per folder. What cannot be mended from inside ends the process; it is started again.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import resource
import secrets
import signal
import time
from collections.abc import Callable, Coroutine
from pathlib import Path

import msgspec
import uvloop

from headrace import telemetry
from headrace.bus import subjects
from headrace.bus.interface import BusError
from headrace.bus.nats import NatsBus
from headrace.client.errors import ClientError
from headrace.events.accounts import isolation_text
from headrace.events.nodes import NodeJoined
from headrace.node_agent import folders
from headrace.node_agent.agent import Agent
from headrace.node_agent.devices import Devices
from headrace.node_agent.devices.choosing import devices_of
from headrace.node_agent.dismissal import Dismissed
from headrace.node_agent.enforcement.enforcer import Enforcer
from headrace.node_agent.enforcement.mps import Mps
from headrace.node_agent.gang_network import network as gang_network
from headrace.node_agent.identity import NodeKeys
from headrace.node_agent.isolation import accounts
from headrace.node_agent.isolation.accounts import Accounts
from headrace.node_agent.isolation.cgroups import name_of
from headrace.node_agent.joining import NotAdmitted, enter, renewing, sign_in
from headrace.node_agent.journal_file import FileJournal
from headrace.node_agent.lease import FileLease
from headrace.node_agent.machines import machine_of
from headrace.node_agent.membership import NodeFolder
from headrace.node_agent.pausing.drivers import driver_of
from headrace.node_agent.probing.prober import Prober
from headrace.node_agent.settings import NodeSettings, host_name
from headrace.node_agent.supervision import kernel
from headrace.node_agent.surroundings import Surroundings
from headrace.node_agent.tasks import end_tasks
from headrace.node_agent.worker_ports import is_taken
from headrace.node_agent.workplaces.fetching import Files
from headrace.node_agent.workplaces.preparing import Workplaces
from headrace.node_agent.workplaces.repositories import Repositories
from headrace.node_agent.workplaces.setups import interpreters
from headrace.runtime.health import Answer, Health, json_answer

NOT_ADMITTED = 78  # EX_CONFIG: starting again changes nothing

_LOG = logging.getLogger("headrace.node_agent")


def run() -> None:
    """Run the agent until SIGTERM or SIGINT. Exits 1 when the process must be replaced."""
    settings = NodeSettings.read()
    telemetry.start(f"node_agent/{settings.node or NodeFolder(settings.node_dir).name()}")
    os.umask(0o077)
    _raise_file_limit()
    try:
        accounts.require(settings.accounts.first)
        settings.node_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        _be_the_only_one(settings.node_dir)
        uvloop.run(_run(_entered(settings)))
    except Dismissed as error:
        _LOG.error("%s", error)
        _why_no_member(settings)
        raise SystemExit(NOT_ADMITTED) from None
    except (NotAdmitted, accounts.NoAccount) as error:
        _LOG.error("%s", error)
        raise SystemExit(NOT_ADMITTED) from None
    except (BusError, OSError, ValueError) as error:
        why = _why_no_member(settings) if isinstance(error, BusError | ConnectionError) else ""
        _LOG.error("%s", why or f"node agent ends error={type(error).__name__}: {error}")
        raise SystemExit(NOT_ADMITTED if why else 1) from None
    finally:
        telemetry.stop()


def _why_no_member(settings: NodeSettings) -> str:
    """Ask the platform. A node that was deleted forgets who it was and says why; one that was only
    doubted, or cannot ask, does not.
    """
    folder = NodeFolder(settings.node_dir)
    try:
        member = folder.member()
        if member is not None:
            sign_in(folder, member)
    except NotAdmitted as error:
        return str(error)
    except (ClientError, OSError, ValueError):
        pass
    return ""


def _entered(settings: NodeSettings) -> NodeSettings:
    """With what joining told. A node that was prepared by hand knows everything already."""
    if settings.nats_url and settings.node and not NodeFolder(settings.node_dir).is_used():
        return msgspec.structs.replace(settings, address=settings.address or host_name())
    folder = NodeFolder(settings.node_dir)
    folder.moved(settings.url, settings.certificate)
    return settings.joined(enter(folder), folder)


async def _run(settings: NodeSettings) -> None:
    lost = asyncio.Event()
    enforcer = _enforcer(settings)
    keys = NodeKeys(settings.node_dir, settings.keys_dir)
    journal = _journal(settings, keys)
    driver = driver_of(settings.gpus, settings.node_dir, enforcer.devices)
    pausing = await asyncio.to_thread(driver.probe)
    bus = await _bus(settings, lost)
    agent = Agent(
        Surroundings(
            node=_node(settings, enforcer.devices, keys, pausing),
            bus=bus,
            machine=machine_of(settings, enforcer, driver),
            journal=journal,
            enforcer=enforcer,
            lease=FileLease(settings.node_dir),
            is_granted=keys.is_granted,
            unseal=keys.unseal,
            now_us=_now_us,
            aside=asyncio.to_thread,
            prober=_prober(settings, keys),
            workplaces=_workplaces(settings, bus),
            is_taken=is_taken,
            network=await asyncio.to_thread(
                gang_network.probe, name_of(settings.node_dir), settings.network
            ),
        )
    )
    health = Health(_pages(agent, settings.node, settings.accounts))
    await health.start(settings.http, settings.run_dir / "node_agent.port")
    try:
        await _until_stopped(agent, renewing(NodeFolder(settings.node_dir), bus), lost)
    finally:
        await health.stop()
        await bus.close()
        journal.close()


def _enforcer(settings: NodeSettings) -> Enforcer:
    devices = devices_of(settings.gpus, settings.node, settings.node_dir)
    return Enforcer(
        devices,
        settings.node_dir,
        Mps(settings.node_dir / "mps"),
        lambda assignment: settings.accounts.number_of(assignment.user, assignment.account),
    )


def _prober(settings: NodeSettings, keys: NodeKeys) -> Prober:
    return Prober(
        settings.node,
        settings.address,
        settings.node_dir / "bandwidth.json",
        is_granted=keys.is_granted,
        opened=keys.opened,
        now_us=_now_us,
    )


def _workplaces(settings: NodeSettings, bus: NatsBus) -> Workplaces:
    def owner_of(user: str, number: int) -> tuple[int, int] | None:
        account = settings.accounts.of(user, number)
        return account[:2] if account is not None else None

    return Workplaces(
        Files(bus, settings.node),
        settings.node_dir,
        owner_of,
        Repositories(settings.git_protocols),
        map(str, settings.folders_hidden()),
    )


def _now_us() -> int:
    return time.time_ns() // 1000


async def _bus(settings: NodeSettings, lost: asyncio.Event) -> NatsBus:
    try:
        return await NatsBus.connect(
            settings.nats_url,
            creds_path=settings.nats_creds,
            certificate=settings.nats_certificate,
            name=f"node-{settings.node}",
            inbox_prefix=subjects.node_inbox(settings.node),
            on_lost=lost.set,
        )
    except BusError:
        NodeFolder(settings.node_dir).forget_bus()
        raise


def _journal(settings: NodeSettings, keys: NodeKeys) -> FileJournal:
    return FileJournal.open(
        settings.node_dir / "journal.jsonl",
        boot=kernel.boot_id(),
        granter=keys.granter,
        new_incarnation=lambda: secrets.token_hex(8),
    )


async def _until_stopped(
    agent: Agent, renewing: Coroutine[None, None, None], lost: asyncio.Event
) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    running = asyncio.create_task(agent.run())
    renewal = asyncio.create_task(renewing)
    ends = [asyncio.create_task(stop.wait()), asyncio.create_task(lost.wait())]
    await asyncio.wait([running, renewal, *ends], return_when=asyncio.FIRST_COMPLETED)
    await end_tasks([running, renewal, *ends])
    for task in (running, renewal):
        if not task.cancelled():
            task.result()
    if lost.is_set() and not stop.is_set():
        raise ConnectionError("the bus is gone for good")


def _node(
    settings: NodeSettings, devices: Devices, keys: NodeKeys, pausing: tuple[str, ...]
) -> NodeJoined:
    return NodeJoined(
        node=settings.node,
        host=host_name(),
        address=settings.address,
        boot="",
        incarnation="",
        public_key=keys.public_key,
        cpu_milli=devices.cpu_milli,
        memory_bytes=devices.memory_bytes,
        port_first=settings.ports[0],
        port_last=settings.ports[1],
        labels=settings.labels,
        version=_version(),
        pausing=pausing,
        pythons=tuple(interpreters()),
        isolation=settings.accounts.isolation,
        trusted=settings.accounts.trusted,
    )


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("headrace")
    except PackageNotFoundError:
        return ""


def _pages(agent: Agent, node: str, accounts: Accounts) -> dict[str, Callable[[], Answer]]:
    isolation = isolation_text(accounts.isolation, accounts.trusted)

    def ready() -> Answer:
        return json_answer(
            200 if agent.is_ready else 503,
            {"node": node, "isolation": isolation, **agent.condition()},
        )

    return {"/livez": lambda: json_answer(200, {"node": node}), "/readyz": ready}


def _be_the_only_one(node_dir: Path) -> None:
    """Raises `ValueError` when another agent works in this folder."""
    lock = os.open(node_dir / folders.AGENT_LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # held until the process ends
    except OSError:
        raise ValueError(f"another agent works in {node_dir}") from None


def _raise_file_limit() -> None:
    """Every running attempt takes a descriptor."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

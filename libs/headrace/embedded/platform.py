"""The running platform: servers, services and node agents, brought up and taken down in order.

Rule: whatever was left behind by a killed supervisor is found by its record. Servers that still run
are adopted; services and agents are replaced, because they keep nothing that matters.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import subprocess
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec

from headrace.embedded import EmbeddedError, identity, secrets, settings
from headrace.embedded.accounts import private_folder
from headrace.embedded.durability import sync
from headrace.embedded.ending import end_everything, stop_together
from headrace.embedded.files import read_json, write_file
from headrace.embedded.identity import Identity, Seen
from headrace.embedded.layout import Layout
from headrace.embedded.nats import Nats
from headrace.embedded.postgres import Postgres
from headrace.embedded.processes import Process, alive, identify
from headrace.embedded.services import (
    SERVICES,
    Servers,
    has_joined,
    inherited,
    node_units,
    role_dsn,
    service_units,
)
from headrace.embedded.settings import Settings, free_address, reachable_host, url_of
from headrace.embedded.supervisor import Supervisor
from headrace.embedded.units import (
    LOOPBACK,
    Unit,
    python_command,
    readiness,
    recorded,
    run_dir,
    server_unit,
)
from headrace.trust import order

MIGRATION_S_MAX = 900.0
POSITION_S = 10.0  # between two looks at how far the log is
DATABASE = "headrace"

NewToken = Callable[[str, int], str]
"""A new join token of the platform at this address, for so many nodes. Raises `EmbeddedError`."""

_LOG = logging.getLogger("headrace.up")


class Gone(EmbeddedError):
    """The data dir was removed, or replaced, under the running platform."""


class State(msgspec.Struct):
    """What the supervisor says of itself. `phase` is `starting`, `ready` or `stopping`."""

    process: Process
    phase: str
    url: str


class Platform:
    """One platform in this process. `start` once, then `stop` once. `new_token` makes a token that
    lets nodes join.
    """

    def __init__(self, layout: Layout, wanted: Settings, new_token: NewToken) -> None:
        self._layout = layout
        self._new_token = new_token
        self._settings = wanted
        self._supervisor = Supervisor(layout)
        self._servers = Servers()
        self._dependents: list[Unit] = []  # services and agents: what stands on the servers
        self._folder = layout.data_dir.stat().st_ino
        self.url = ""

    async def start(self) -> bool:
        """Bring everything up; True once it is ready, False when `stop` came first.

        Raises `EmbeddedError`.
        """
        self._report("starting")
        await asyncio.gather(self._clear_remains(), self._start_servers())
        await asyncio.to_thread(self._prepare_log)
        if self._layout.is_unfinished():
            await asyncio.to_thread(self._finish)
        listen = free_address(self._settings.listen)
        self._servers.metrics = self._settings.metrics_address
        if not self._servers.metrics.endswith(":0"):  # that one finds a port at each of its starts
            free_address(self._servers.metrics, "--metrics-port")
        self.url = url_of(listen, tls=self._settings.tls)
        self._report("starting")
        services = service_units(self._layout, self._servers, self._settings, listen)
        nodes = node_units(self._layout, self._servers, self._settings, listen)
        new = [unit.name for unit in nodes if not has_joined(self._layout, unit.name)]
        await self._keep(services if new else [*services, *nodes])
        if new and not self._supervisor.closing.is_set():
            await asyncio.to_thread(self._let_join, new)
            await self._keep(nodes)
            await asyncio.to_thread(sync, self._layout.data_dir)
        if self._supervisor.closing.is_set():
            return False
        self._report("ready")
        return True

    def _finish(self) -> None:
        """What was made for the first time is on the disk before anybody is promised anything."""
        external = self._settings.external_postgres
        sync(self._layout.data_dir, *([] if external else [self._layout.postgres()]))
        self._layout.finish()

    async def _keep(self, units: list[Unit]) -> None:
        """Start these and wait until they are ready."""
        self._dependents += units
        for unit in units:
            self._supervisor.keep(unit)
        await self._supervisor.ready(units)

    def _let_join(self, nodes: list[str]) -> None:
        """New nodes join as any machine does, by a token. Raises `EmbeddedError`."""
        token = self._new_token(self.url, len(nodes))
        for node in nodes:
            order.give(
                private_folder(self._layout.node(node)),
                order.Order(node=node, url=self.url, token=token),
            )

    async def watch(self) -> None:
        """Keep the logs short, and remember how far the log is, until `stop`. Raises `Gone`."""
        await asyncio.gather(self._supervisor.watch_files(), self._watch_position())

    async def _watch_position(self) -> None:
        while not self._supervisor.closing.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POSITION_S):
                    await self._supervisor.closing.wait()
            self._check_folder()
            await asyncio.to_thread(self._see_position)

    def _check_folder(self) -> None:
        """Nothing that is written into a folder which is no more is found again."""
        try:
            is_there = self._layout.data_dir.stat().st_ino == self._folder
        except FileNotFoundError:
            is_there = False
        if not is_there:
            raise Gone(f"{self._layout.data_dir} was removed: nothing of it is left to go on with")

    def _see_position(self) -> None:
        """As placement last folded it: an older log is known for one then."""
        said = readiness(run_dir(self._layout, "placement") / "placement.port")
        if isinstance(position := said.get("position"), int):
            with contextlib.suppress(OSError):
                identity.seen(self._layout, position)

    async def stop(self, *, keep_jobs: bool) -> None:
        """Take everything down, and forget that it was up."""
        with contextlib.suppress(OSError):  # on a full disk it ends all the same
            self._report("stopping")
        await asyncio.to_thread(self._see_position)
        self._supervisor.closing.set()
        await asyncio.to_thread(end_everything, self._layout, keep_jobs=keep_jobs)
        await self._supervisor.close()
        self._layout.state.unlink(missing_ok=True)

    async def abandon(self) -> None:
        """End the processes, whose records are gone; jobs on this machine's nodes end by themselves."""
        await self._supervisor.end()

    async def _clear_remains(self) -> None:
        """Services and agents of a killed supervisor: new ones take their place."""
        names = {record.name for record in recorded(self._layout)} - {"postgres", "nats"}
        await asyncio.to_thread(stop_together, self._layout, names)

    async def _start_servers(self) -> None:
        """Start what is not given, and keep it from then on. The first failure is final."""
        units = []
        self._servers.certificate = secrets.certificate(self._layout, self._settings)
        self._servers.is_pinned = self._settings.tls and not self._settings.tls_certificate
        self._servers.owner_dsn = os.environ.get("HEADRACE_PG_DSN", "")
        self._servers.nats_url = os.environ.get("HEADRACE_NATS_URL", "")
        self._servers.nats_creds = os.environ.get("HEADRACE_NATS_CREDS", "")
        is_unfinished = self._layout.is_unfinished()
        if not self._settings.external_postgres:
            postgres = Postgres(self._layout.postgres(), log=self._layout.log("postgres"))
            if is_unfinished and postgres.running() is None:
                postgres.discard()
            units.append(server_unit("postgres", postgres))
        if not self._settings.external_nats:
            self._servers.nats_creds = None
            nats = self._nats()
            unit = server_unit("nats", nats)
            units.append(replace(unit, start=lambda: self._start_nats(nats)))
        await asyncio.gather(*(asyncio.to_thread(unit.start) for unit in units))
        if not self._settings.external_postgres:
            self._servers.owner_dsn = postgres.dsn(DATABASE)
        for unit in units:
            self._supervisor.keep(unit)

    def _nats(self) -> Nats:
        """The bus. Others reach it where they reach the gateway, if that is over TLS."""
        certificate, key = self._servers.certificate
        listen = self._settings.listen
        return Nats(
            self._layout.nats,
            authentication=secrets.bus_authentication(self._layout),
            log=self._layout.log("nats"),
            host=reachable_host(listen) if certificate else LOOPBACK,
            listen=listen.rpartition(":")[0] if certificate else LOOPBACK,
            certificate=certificate,
            private_key=key,
            port=self._settings.bus_port_after(Nats(self._layout.nats).known_port),
        )

    def _start_nats(self, nats: Nats) -> Process:
        """Start it; had it to move to another port, whatever uses it is told by a new start."""
        process = nats.start()
        before, self._servers.nats_url = self._servers.nats_url, nats.url
        if before and before != nats.url:
            _LOG.warning("nats moved from=%s to=%s", before, nats.url)
            for unit in self._dependents:
                unit.stop()
        return process

    def _prepare_log(self) -> None:
        """Open the log and bring its schema and roles up to date, in a process that is gone
        afterwards; what is known of it from then on is kept.
        """
        known = identity.read(self._layout)
        if known is None:  # the supervisor was started without `up`
            known = identity.settled(self._layout)
        order = {
            "dsn": self._servers.owner_dsn,
            "opening": {
                "passwords": {
                    f"headrace_{role}": secrets.password(self._layout, role)
                    for role in (*SERVICES, secrets.OPERATOR)
                },
                "master_key": secrets.master_key_digest(self._layout),
                "known": _known(known),
                "how": known.how,
                "is_shared": self._settings.external_postgres,
                "rotate": known.rotate,
            },
            "create": not self._settings.external_postgres,
        }
        if self._settings.external_nats:
            order |= {
                "nats_url": self._servers.nats_url,
                "nats_creds": self._servers.nats_creds or "",
            }
        done = subprocess.run(
            python_command("headrace.embedded.migration"),
            input=msgspec.json.encode(order),
            env=inherited(),
            capture_output=True,
            check=False,
            timeout=MIGRATION_S_MAX,
        )
        if done.returncode != 0:
            lines = done.stderr.decode(errors="replace").strip().splitlines()
            reason = lines[-1] if lines else "no reason"
            if reason.startswith("refused: "):
                raise EmbeddedError(reason)
            raise EmbeddedError(f"preparing the log failed: {reason}")
        self._remember(known, msgspec.json.decode(done.stdout, type=dict[str, Any]))

    def _remember(self, known: Identity, said: dict[str, Any]) -> None:
        """The log as it was opened; what was ordered is done."""
        opened = msgspec.convert(said, type=Seen)
        for name in Seen.__struct_fields__:
            setattr(known, name, getattr(opened, name))
        known.how, known.rotate = "", False
        identity.write(self._layout, known)
        self._servers.role_prefix = opened.prefix

    def _report(self, phase: str) -> None:
        process = identify(os.getpid())
        assert process is not None
        state = State(process=process, phase=phase, url=self.url)
        write_file(self._layout.state, msgspec.json.encode(state))


def _known(known: Identity) -> dict[str, Any]:
    """What the log is compared with."""
    fields = {name: getattr(known, name) for name in Seen.__struct_fields__}
    return {name: value for name, value in fields.items() if value}


def state(layout: Layout) -> State | None:
    """What the running supervisor says of itself; None when none runs."""
    said = read_json(layout.state, State)
    return said if said and alive(said.process) else None


def owner_dsn(layout: Layout, settings: Settings) -> str:
    """The DSN of the log's owner. Raises `EmbeddedError` before the first start."""
    if settings.external_postgres:
        given = os.environ.get("HEADRACE_PG_DSN", "")
        if not given:
            raise EmbeddedError("its log is in your own Postgres: set HEADRACE_PG_DSN")
        return given
    return Postgres(layout.postgres()).dsn(DATABASE)


def operator_dsn(layout: Layout) -> str:
    """The DSN of the role that may read everything, for `verify` and `erase`.

    Raises `EmbeddedError` when no platform was started here.
    """
    owner = owner_dsn(layout, settings.read(layout))
    known = identity.read(layout)
    prefix = known.prefix if known is not None else ""
    return role_dsn(owner, secrets.OPERATOR, secrets.password(layout, secrets.OPERATOR), prefix)

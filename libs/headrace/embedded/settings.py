"""What the person who started the platform wanted, kept so that the next start needs no options."""

from __future__ import annotations

import errno
import os
import re
import socket
from pathlib import Path

import msgspec

from headrace.embedded import EmbeddedError
from headrace.embedded.files import read_json, write_file
from headrace.embedded.layout import Layout
from headrace.trust.workspace_places import Places

NODES_MAX = 64  # of one machine; a fleet has a machine per node
PORTS_PER_NODE = 500
FIRST_PORT = 20_000
NVIDIA = Path("/proc/driver/nvidia/gpus")
SIMULATED = "simulated:8xH100-80GB"
LISTEN = "127.0.0.1:7400"
METRICS_PORT = 7414  # on loopback, for Prometheus; as deploy/prometheus has it
# The bus beside the gateway: 74 as there, 22 as in NATS' own 4222, which a NATS of somebody else may
# have. It is below the ports that Linux gives to outgoing connections unless it is told others.
BUS_PORT = 7422

_GPUS = re.compile(r"^(auto|simulated:([1-9]\d{0,2})x([A-Za-z0-9][A-Za-z0-9.-]{0,62}))$")


class Settings(msgspec.Struct, kw_only=True):
    """The options of `headrace up`. `gpus` holds for each node."""

    nodes: int
    gpus: str
    listen: str = LISTEN
    metrics_port: int | None = None  # 0: any that is free
    bus_port: int | None = None  # of the embedded bus; 0: any that is free
    are_nodes_chosen: bool = False  # else as many as suit where it listens
    trust_everybody: bool = False  # where nodes cannot isolate jobs
    external_postgres: bool = False
    external_nats: bool = False
    tls: bool = False
    tls_certificate: str = ""  # a file; empty: one that the platform makes for itself
    tls_key: str = ""
    workspace_domain: str = ""  # below which each workspace has a host name

    def node_names(self) -> list[str]:
        """`n1`, `n2`, …"""
        return [f"n{index + 1}" for index in range(self.nodes)]

    def node_ports(self, node: str) -> str:
        """The ports that the attempts of a node may use, first to last."""
        first = FIRST_PORT + PORTS_PER_NODE * (int(node[1:]) - 1)
        return f"{first}-{first + PORTS_PER_NODE - 1}"

    def fleet(self) -> str:
        """The nodes and their devices in words, such as `2 nodes · 16 × H100-80GB (simulated)`."""
        if not self.nodes:
            return "no nodes of its own"
        nodes = f"{self.nodes} node{'' if self.nodes == 1 else 's'}"
        found = _GPUS.match(self.gpus)
        if found and found[2]:
            return f"{nodes} · {int(found[2]) * self.nodes} × {found[3]} (simulated)"
        return f"{nodes} · {len(list(NVIDIA.iterdir())) if NVIDIA.is_dir() else 0} GPUs"

    def bus_port_after(self, known: int) -> int:
        """The port of the bus, 0 for any that is free. `known` is the last start's, which nodes and
        pipelines know it by. Who lets the gateway have any port lets the bus.
        """
        if self.bus_port is not None:
            return self.bus_port
        return 0 if self.listen.endswith(":0") else known or BUS_PORT

    @property
    def metrics_address(self) -> str:
        """Where the fleet's numbers are to be. Who lets the gateway have any port lets them."""
        port = self.metrics_port
        if port is None:
            port = 0 if self.listen.endswith(":0") else METRICS_PORT
        return f"127.0.0.1:{port}"

    @property
    def is_local(self) -> bool:
        """Whether only this machine reaches it."""
        host = self.listen.rpartition(":")[0].strip("[]")
        return host in ("localhost", "::1") or host.startswith("127.")

    @property
    def are_jobs_kept(self) -> bool:
        """Whether jobs on this machine's nodes run on while the platform is down: where it serves other
        machines too, whose nodes outlive it anyway.
        """
        return not self.is_local


class Wanted(msgspec.Struct, kw_only=True):
    """The options of one `headrace up`; None is as at the last start."""

    nodes: int | None = None
    gpus: str | None = None
    listen: str | None = None
    metrics_port: int | None = None
    bus_port: int | None = None
    tls_self_signed: bool = False
    tls_certificate: str = ""
    tls_key: str = ""
    workspace_domain: str | None = None
    trust_everybody: bool | None = None

    def is_anything(self) -> bool:
        """Whether any option was given."""
        return self != Wanted()


def settle(layout: Layout, wanted: Wanted) -> Settings:
    """The options given now, then the ones of last time, then the defaults; kept for next time.

    Raises `EmbeddedError` naming the option and what would be accepted.
    """
    known = read_json(layout.settings, Settings)
    settings = known or _defaults()
    if wanted.nodes is not None:
        settings.nodes, settings.are_nodes_chosen = wanted.nodes, True
    settings.gpus = settings.gpus if wanted.gpus is None else wanted.gpus
    settings.listen = settings.listen if wanted.listen is None else wanted.listen
    if wanted.metrics_port is not None:
        settings.metrics_port = wanted.metrics_port
    settings.bus_port = settings.bus_port if wanted.bus_port is None else wanted.bus_port
    if wanted.workspace_domain is not None:
        settings.workspace_domain = wanted.workspace_domain
    if wanted.trust_everybody is not None:
        settings.trust_everybody = wanted.trust_everybody
    _settle_tls(settings, wanted)
    _check(settings)
    if not settings.are_nodes_chosen:  # who reaches others' jobs runs none beside their keys
        settings.nodes = _defaults().nodes if settings.is_local else 0
    for name, variable, was in (
        ("Postgres", "HEADRACE_PG_DSN", settings.external_postgres),
        ("NATS", "HEADRACE_NATS_URL", settings.external_nats),
    ):
        if known is not None and was != (variable in os.environ):
            raise EmbeddedError(
                f"{layout.data_dir} was started with {'your own' if was else 'its embedded'} "
                f"{name}; {'set' if was else 'unset'} {variable}, or choose another --data-dir"
            )
    settings.external_postgres = "HEADRACE_PG_DSN" in os.environ
    settings.external_nats = "HEADRACE_NATS_URL" in os.environ
    write_file(layout.settings, msgspec.json.encode(settings), durable=True)
    return settings


def read(layout: Layout) -> Settings:
    """The options of the last start. Raises `EmbeddedError` when there was none."""
    known = read_json(layout.settings, Settings)
    if known is None:
        raise EmbeddedError(
            f"no platform in {layout.data_dir}; headrace up starts one, --data-dir names another folder"
        )
    return known


def free_address(address: str, option: str = "--listen") -> str:
    """`address`, with a free port in place of 0. Another that is taken is never replaced: people and
    machines know it. Raises `EmbeddedError` with the `option` that chooses it.
    """
    host, _, port = address.rpartition(":")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host.strip("[]"), int(port)))
        except OSError as error:
            value = address if option == "--listen" else port
            raise EmbeddedError(
                f"refused: {option} = {value} — {_why(error, host, port)}"
            ) from error
        return f"{host}:{probe.getsockname()[1]}"


def _why(error: OSError, host: str, port: str) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"another program listens there (`ss -ltnp sport = :{port}` tells which); choose another"
            " port, 0 takes any that is free"
        )
    if error.errno == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror):
        return f"{host} is no address of this machine"
    return error.strerror or str(error)


def reachable_host(listen: str) -> str:
    """Where a gateway that listens there is reached from this machine."""
    host = listen.rpartition(":")[0].strip("[]")
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - not ours to bind


def url_of(listen: str, *, tls: bool) -> str:
    """The address of a gateway that listens there."""
    host = reachable_host(listen)
    scheme = "https" if tls else "http"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{listen.rpartition(':')[2]}"


def _defaults() -> Settings:
    if NVIDIA.is_dir():
        return Settings(nodes=1, gpus="auto")
    return Settings(nodes=2, gpus=SIMULATED)


def _settle_tls(settings: Settings, wanted: Wanted) -> None:
    if bool(wanted.tls_certificate) != bool(wanted.tls_key):
        raise EmbeddedError("refused: --tls-cert — needs --tls-key, and the other way round")
    if wanted.tls_self_signed and wanted.tls_certificate:
        raise EmbeddedError("refused: --tls-self-signed — not beside --tls-cert")
    if wanted.tls_self_signed or wanted.tls_certificate:
        settings.tls = True
        settings.tls_certificate = wanted.tls_certificate
        settings.tls_key = wanted.tls_key


def _check(settings: Settings) -> None:
    if not 0 <= settings.nodes <= NODES_MAX:
        raise EmbeddedError(f"refused: --nodes = {settings.nodes} — 0 to {NODES_MAX} are possible")
    try:
        Places(settings.workspace_domain)
    except ValueError as error:
        raise EmbeddedError(f"refused: --workspace-domain — {error}") from error
    if not _GPUS.match(settings.gpus):
        raise EmbeddedError(
            f"refused: --gpus = {settings.gpus} — auto, or simulated:<count>x<model>-<size>, "
            f"such as {SIMULATED}"
        )
    if settings.metrics_port is not None and not 0 <= settings.metrics_port <= 65_535:
        line = f"refused: --metrics-port = {settings.metrics_port} — 0 (any that is free) to 65535"
        raise EmbeddedError(line)
    _check_bus_port(settings)
    host, _, port = settings.listen.rpartition(":")
    if not host and port and not port.isdigit():
        settings.listen = f"{settings.listen}:{LISTEN.rpartition(':')[2]}"
    elif not host or not port.isdigit() or int(port) > 65_535:
        raise EmbeddedError(f"refused: --listen = {settings.listen} — host:port, such as {LISTEN}")


def _check_bus_port(settings: Settings) -> None:
    port = settings.bus_port
    if port is None:
        return
    if not 0 <= port <= 65_535:
        raise EmbeddedError(f"refused: --bus-port = {port} — 0 (any that is free) to 65535")
    if port and settings.listen.endswith(f":{port}"):
        raise EmbeddedError(
            f"refused: --bus-port = {port} — the gateway is there; {BUS_PORT} is usual"
        )
    if "HEADRACE_NATS_URL" in os.environ:
        raise EmbeddedError(
            f"refused: --bus-port = {port} — the bus is your own, at HEADRACE_NATS_URL"
        )

"""Which processes make the platform, and what each of them is told.

Rule: a process learns its surroundings from `HEADRACE_*` variables alone, and gets the credentials
and keys that it needs and no others. A new service is one line in `SERVICES`.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

import headrace.events
from headrace.access.names import ADMIN
from headrace.embedded import secrets
from headrace.embedded.accounts import private_folder
from headrace.embedded.contexts import config_file
from headrace.embedded.layout import Layout
from headrace.embedded.settings import Settings, reachable_host, url_of
from headrace.embedded.units import LOOPBACK, Unit, run_dir, service_unit
from headrace.events.accounts import EVERYBODY

SERVICES = ("admission", "quota", "placement", "metrics", "gateway")

MEMBER = "member.json"  # what an agent keeps in its folder once it has joined

# What the caller's shell says and a child must not take over.
LEFT_OUT = (
    "HEADRACE_PG_DSN",
    "HEADRACE_NATS_URL",
    "HEADRACE_NATS_CREDS",
    "HEADRACE_TOKEN",
    "HEADRACE_URL",
    "HEADRACE_PROJECT",
    "PYTHONDONTWRITEBYTECODE",  # compiling every module at every start costs seconds
)


class Servers:
    """How the log and the bus are reached now. The bus may move to another port."""

    owner_dsn = ""
    nats_url = ""
    nats_creds: str | None = None  # of a bus that is not ours: everybody's login, or none at all
    certificate: tuple[str, str] = ("", "")  # of gateway and bus, and its key: files
    metrics = "127.0.0.1:0"  # where the fleet's numbers are
    role_prefix = ""  # what the names of the log's roles begin with
    is_pinned = False  # whether the certificate is our own


def service_units(layout: Layout, servers: Servers, settings: Settings, listen: str) -> list[Unit]:
    """The services' processes. `listen` is the gateway's address."""
    return [
        service_unit(
            layout,
            name,
            name,
            partial(_of_service, layout, servers, settings, name, listen),
            host=reachable_host(listen) if name == "gateway" else LOOPBACK,
            certificate=servers.certificate[0] if name == "gateway" else "",
        )
        for name in SERVICES
    ]


def node_units(layout: Layout, servers: Servers, settings: Settings, listen: str) -> list[Unit]:
    """The node agents' processes: they reach the gateway at `listen`, the bus and nothing else."""
    return [  # jobs create files as the person who started the platform would: no umask of ours
        service_unit(
            layout,
            node,
            "node_agent",
            partial(_of_node, layout, servers, settings, node, listen),
            umask=-1,
        )
        for node in settings.node_names()
    ]


def metrics_url(address: str) -> str:
    """Where the fleet's numbers are; empty when that shows at each start."""
    return "" if address.endswith(":0") else f"http://{address}/metrics"


def has_joined(layout: Layout, node: str) -> bool:
    """Whether this node is a member already."""
    return (layout.node(node) / MEMBER).exists()


def _of_service(
    layout: Layout, servers: Servers, settings: Settings, name: str, listen: str
) -> dict[str, str]:
    env = _common(layout, servers, name) | {
        "HEADRACE_PG_DSN": role_dsn(
            servers.owner_dsn, name, secrets.password(layout, name), servers.role_prefix
        ),
        "HEADRACE_HTTP": {"gateway": listen, "metrics": servers.metrics}.get(name, "127.0.0.1:0"),
    }
    if name == "gateway":
        env["HEADRACE_TOKEN_FILE"] = str(secrets.token_file(layout))
        env["HEADRACE_FILES_DIR"] = str(layout.files)
        env["HEADRACE_METRICS_URL"] = metrics_url(servers.metrics)
        env["HEADRACE_WORKSPACE_DOMAIN"] = settings.workspace_domain
        env |= _tls(servers)
    return env


def _of_node(
    layout: Layout, servers: Servers, settings: Settings, node: str, listen: str
) -> dict[str, str]:
    common = inherited() | _process(layout, node)
    if servers.nats_creds is not None:  # the login that joining gives is for our own bus
        common |= {"HEADRACE_NATS_URL": servers.nats_url, "HEADRACE_NATS_CREDS": servers.nats_creds}
    own_tools = os.path.dirname(sys.executable)  # `python` in a job is the one Headrace runs on
    return common | {
        "PATH": f"{own_tools}:{common.get('PATH', os.defpath)}",
        "HEADRACE_HTTP": "127.0.0.1:0",
        "HEADRACE_URL": url_of(listen, tls=bool(servers.certificate[0])),
        "HEADRACE_CERTIFICATE": servers.certificate[0] if servers.is_pinned else "",
        "HEADRACE_NODE_GPUS": settings.gpus,
        "HEADRACE_NODE_DIR": str(private_folder(layout.node(node))),
        "HEADRACE_NODE_PORTS": settings.node_ports(node),
        "HEADRACE_NODE_ISOLATION": "processes",  # one machine plays several
        "HEADRACE_NODE_HIDDEN": f"{layout.data_dir}{os.pathsep}{config_file().parent}",
        "HEADRACE_NODE_NETWORK": "none",
        "HEADRACE_NODE_TRUSTED": EVERYBODY if settings.trust_everybody else ADMIN,
    }


def role_dsn(owner_dsn: str, role: str, password: str, prefix: str = "") -> str:
    """The owner's DSN with the role `headrace_<role>` instead of the owner, or another `prefix`."""
    parts = urlsplit(owner_dsn)
    where = parts.netloc.rpartition("@")[2]
    login = f"{prefix or 'headrace_'}{role}:{quote(password, safe='')}"
    return urlunsplit(parts._replace(netloc=f"{login}@{where}"))


def inherited() -> dict[str, str]:
    """Our own environment as a child may have it."""
    env = {name: value for name, value in os.environ.items() if name not in LEFT_OUT}
    package = Path(headrace.events.__file__).parent
    if not os.access(package, os.W_OK):
        cache = f"headrace-python{sys.version_info.major}{sys.version_info.minor}"
        env.setdefault("PYTHONPYCACHEPREFIX", str(Path.home() / ".cache" / cache))
    return env


def _common(layout: Layout, servers: Servers, name: str) -> dict[str, str]:
    creds = str(secrets.creds_file(layout, name))
    if servers.nats_creds is not None:
        creds = servers.nats_creds
    return (
        inherited()
        | _process(layout, name)
        | {
            "HEADRACE_NATS_URL": servers.nats_url,
            "HEADRACE_NATS_CREDS": creds,
            "HEADRACE_NATS_CERTIFICATE": servers.certificate[0],
            "HEADRACE_KEYS_DIR": str(secrets.hand_out(layout, name, name)),
        }
    )


def _tls(servers: Servers) -> dict[str, str]:
    certificate, key = servers.certificate
    if not certificate:
        return {}
    pinned = {"HEADRACE_TLS_PINNED": "1"} if servers.is_pinned else {}
    return {"HEADRACE_TLS_CERTIFICATE": certificate, "HEADRACE_TLS_KEY": key, **pinned}


def _process(layout: Layout, name: str) -> dict[str, str]:
    return {
        "HEADRACE_RUN_DIR": str(private_folder(run_dir(layout, name))),
        "HEADRACE_INSTANCE": f"{name}-1",
        "MALLOC_ARENA_MAX": "2",  # several threads of a small process need no arena each
    }

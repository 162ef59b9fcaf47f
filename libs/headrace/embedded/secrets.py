"""Every password, key and token of a platform, made at its first start and kept 0600.

Rule: a secret is one file that is made once and never changed; whoever needs it gets the file or a
copy in a folder of its own, and nobody else does. What is derived (a public key) is made from it. A
login of the bus is made anew when its owner may do something else than before.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.embedded import EmbeddedError
from headrace.embedded.accounts import private_folder
from headrace.embedded.files import write_file
from headrace.embedded.layout import Layout
from headrace.embedded.settings import Settings

if TYPE_CHECKING:
    from headrace.bus.credentials import Permissions

KEY_BYTES = 32
TOKEN_BYTES = 32
PASSWORD_BYTES = 24
METRICS_TOKEN = "metrics.token"  # noqa: S105 -- a file, which Prometheus reads too
OPERATOR = "operator"  # the database role that reads all, for `verify`

KEY_FILES = {  # who may read which key
    "admission": (
        "master.key",
        "account.seed",
        "operator.seed",
        "bus.revoker.creds",
        METRICS_TOKEN,
    ),
    "placement": ("master.key", "vault.key", "grant.key", METRICS_TOKEN),
    "gateway": ("vault.pub", "grant.pub", METRICS_TOKEN),
    "node": ("grant.pub",),
    "quota": (METRICS_TOKEN,),
    "metrics": (METRICS_TOKEN,),
}


def ensure(layout: Layout, services: Sequence[str], nodes: Sequence[str] = ()) -> None:
    """Make what is missing: keys, passwords for the database roles, logins of the bus, a token.
    `nodes` are those that have no way to join and are prepared by hand.
    """
    for name in ("master.key", "vault.key", "grant.key"):
        _once(layout.secrets / name, lambda: os.urandom(KEY_BYTES))
    _ensure_public_keys(layout.secrets)
    for role in (*services, OPERATOR):
        _once(_password_file(layout, role), lambda: secrets.token_urlsafe(PASSWORD_BYTES).encode())
    _ensure_bus_logins(layout, services, nodes)
    for file in (token_file(layout), layout.secrets / METRICS_TOKEN):
        _once(file, lambda: secrets.token_urlsafe(TOKEN_BYTES).encode())


def master_key_digest(layout: Layout) -> str:
    """What the log says of the key that it was begun with."""
    from headrace.store.lineage import digest_of

    return digest_of((layout.secrets / "master.key").read_bytes())


def hand_out(layout: Layout, owner: str, name: str) -> Path:
    """The folder with the keys that `owner` (a service, or `node`) may read, for process `name`."""
    folder = private_folder(layout.keys / name)
    for file in KEY_FILES[owner]:
        source = layout.secrets / file
        if source.exists():
            _once(folder / file, source.read_bytes)
    return folder


def certificate(layout: Layout, settings: Settings) -> tuple[str, str]:
    """The files with the platform's certificate and its private key; made at the first call when
    they are to be self-signed. Empty without TLS. Raises `EmbeddedError`.
    """
    if not settings.tls:
        return "", ""
    if settings.tls_certificate:
        for file in (settings.tls_certificate, settings.tls_key):
            if not os.access(file, os.R_OK):
                raise EmbeddedError(f"refused: --tls-cert, --tls-key — {file} cannot be read")
        return settings.tls_certificate, settings.tls_key
    public, private = layout.secrets / "tls.pem", layout.secrets / "tls.key"
    if not public.exists():
        from headrace.trust.self_signed import self_signed

        names = dict.fromkeys(
            (socket.gethostname(), "localhost", "*.localhost", "127.0.0.1", "::1")
        )
        if settings.workspace_domain:
            names[f"*.{settings.workspace_domain}"] = None
        made, key = self_signed(list(names))
        write_file(private, key, durable=True)
        write_file(public, made, durable=True)
    return str(public), str(private)


def password(layout: Layout, role: str) -> str:
    """The password of the database role `headrace_<role>`."""
    return _password_file(layout, role).read_text(encoding="ascii")


def bus_authentication(layout: Layout) -> str:
    """The part of the NATS server's configuration that says who may connect."""
    return (layout.secrets / "nats.conf").read_text(encoding="ascii")


def creds_file(layout: Layout, name: str) -> Path:
    """The bus login of a service or node."""
    return layout.secrets / f"{name}.creds"


def token(layout: Layout) -> str:
    """The admin's token."""
    return token_file(layout).read_text(encoding="ascii")


def token_file(layout: Layout) -> Path:
    """Where the admin's token is; the gateway reads it there."""
    return layout.secrets / "admin.token"


def _password_file(layout: Layout, role: str) -> Path:
    return layout.secrets / f"postgres-{role}.password"


def _ensure_public_keys(folder: Path) -> None:
    if (folder / "vault.pub").exists() and (folder / "grant.pub").exists():
        return
    from cryptography.hazmat.primitives.asymmetric import ed25519, x25519

    vault = x25519.X25519PrivateKey.from_private_bytes((folder / "vault.key").read_bytes())
    grant = ed25519.Ed25519PrivateKey.from_private_bytes((folder / "grant.key").read_bytes())
    write_file(folder / "vault.pub", vault.public_key().public_bytes_raw(), durable=True)
    write_file(folder / "grant.pub", grant.public_key().public_bytes_raw(), durable=True)


def _ensure_bus_logins(layout: Layout, services: Sequence[str], nodes: Sequence[str]) -> None:
    """The bus trusts an operator, its account, and whom the account signed: all made here."""
    from headrace.bus import credentials
    from headrace.bus.service_logins import service_permissions

    conf = layout.secrets / "nats.conf"
    revoker = creds_file(layout, "bus.revoker")  # no node's or service's name has a dot
    wanted = {name: service_permissions(name) for name in services}
    wanted |= {name: credentials.node_permissions(name) for name in nodes}
    missing = {n: allowed for n, allowed in wanted.items() if not _is_login(layout, n, allowed)}
    if conf.exists() and revoker.exists() and not missing:
        return
    seeds = {
        "operator.seed": credentials.new_operator_seed,
        "account.seed": credentials.new_account_seed,
        "system.seed": credentials.new_account_seed,
    }
    for name, make in seeds.items():
        _once(layout.secrets / name, _encoded(make))
    operator, account, system = (
        (layout.secrets / name).read_text(encoding="ascii") for name in seeds
    )
    _once(conf, lambda: credentials.server_config(operator, account, system).encode())
    allowed = credentials.revoker_permissions(credentials.public_key(account))
    _once(revoker, lambda: credentials.new_creds(system, "revoker", allowed).encode())
    for name, allowed in missing.items():
        creds = credentials.new_creds(account, name, allowed).encode()
        write_file(creds_file(layout, name), creds, durable=True)


def _is_login(layout: Layout, name: str, allowed: Permissions) -> bool:
    """Whether there is a login of that name which gives exactly that."""
    from headrace.bus import credentials

    file = creds_file(layout, name)
    return file.exists() and credentials.allows(file.read_text(encoding="ascii"), allowed)


def _encoded(make: Callable[[], str]) -> Callable[[], bytes]:
    return lambda: make().encode()


def _once(path: Path, make: Callable[[], bytes]) -> None:
    """Make the file unless it is there; once there it is whole and durable."""
    if not path.exists():
        write_file(path, make(), durable=True)

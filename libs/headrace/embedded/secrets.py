"""Every password, key and token of a platform, made at its first start and kept 0600.

Rule: a secret is one file that is made once and never changed; whoever needs it gets the file or a
copy in a folder of its own, and nobody else does. What is derived (a public key) is made from it.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path

from headrace.embedded.accounts import private_folder
from headrace.embedded.files import write_file
from headrace.embedded.layout import Layout

KEY_BYTES = 32
TOKEN_BYTES = 32
PASSWORD_BYTES = 24

KEY_FILES = {  # who may read which key
    "admission": ("master.key", "account.seed"),
    "placement": ("master.key", "vault.key", "grant.key"),
    "gateway": ("vault.pub",),
    "node": ("grant.pub",),
    "quota": (),
    "metrics": (),
}


def ensure(layout: Layout, roles: tuple[str, ...]) -> None:
    """Make what is missing: keys, passwords for the database roles, the admin's token."""
    for name in ("master.key", "vault.key", "grant.key"):
        _once(layout.secrets / name, lambda: os.urandom(KEY_BYTES))
    _ensure_public_keys(layout.secrets)
    for role in roles:
        _once(_password_file(layout, role), lambda: secrets.token_urlsafe(PASSWORD_BYTES).encode())
    _once(token_file(layout), lambda: secrets.token_urlsafe(TOKEN_BYTES).encode())


def hand_out(layout: Layout, owner: str, name: str) -> Path:
    """The folder with the keys that `owner` (a service, or `node`) may read, for process `name`."""
    folder = private_folder(layout.keys / name)
    for file in KEY_FILES[owner]:
        source = layout.secrets / file
        if source.exists():
            _once(folder / file, source.read_bytes)
    return folder


def passwords(layout: Layout, roles: tuple[str, ...]) -> dict[str, str]:
    """The password of each database role."""
    return {role: _password_file(layout, role).read_text(encoding="ascii") for role in roles}


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


def _once(path: Path, make: Callable[[], bytes]) -> None:
    """Make the file unless it is there; once there it is whole and durable."""
    if not path.exists():
        write_file(path, make(), durable=True)

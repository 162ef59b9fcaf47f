"""Where everything of one platform is: one folder, 0700, and one exception.

As root the Postgres cluster belongs to a plain user, who cannot get into our folder; it then lives
under `/var/lib/headrace`, and `postgres.json` in the data dir says where.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec

from headrace.embedded import EmbeddedError
from headrace.embedded.accounts import can_reach, open_folder, plain_account, private_folder
from headrace.embedded.durability import sync
from headrace.embedded.files import read_json, write_file

SHARED_DIR = Path("/var/lib/headrace")


class _Elsewhere(msgspec.Struct):
    """Where the cluster of a data dir is, when it cannot be inside."""

    base: str


class Layout:
    """The paths of one data dir."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.secrets = data_dir / "secrets"
        self.keys = data_dir / "keys"
        self.nats = data_dir / "nats"
        self.nodes = data_dir / "nodes"
        self.run = data_dir / "run"
        self.logs = data_dir / "logs"
        self.files = data_dir / "files"
        self.settings = data_dir / "settings.json"
        self.state = data_dir / "supervisor.json"
        self._unfinished = data_dir / "unfinished"

    def create(self) -> None:
        """Make the folders that are missing. Raises `EmbeddedError`."""
        try:
            self.data_dir.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise EmbeddedError(f"cannot make {self.data_dir}: {error.strerror}") from error
        for folder in (self.data_dir, self.secrets, self.keys, self.nodes, self.run, self.logs):
            private_folder(folder)

    def is_unfinished(self) -> bool:
        """Whether the servers' data are still being made for the first time, or were when a start was cut
        short: before they are on the disk no service has run, so nothing is lost with them.
        """
        if not self._unfinished.exists() and not self.has_postgres():
            write_file(self._unfinished, b"", durable=True)
        return self._unfinished.exists()

    def finish(self) -> None:
        """They are on the disk."""
        if self._unfinished.exists():
            self._unfinished.unlink()
            sync(self.data_dir)

    def exists(self) -> bool:
        """Whether a platform was ever started here."""
        return self.settings.exists()

    def log(self, unit: str) -> Path:
        """Where a process writes its lines."""
        return self.logs / f"{unit}.log"

    def node(self, name: str) -> Path:
        """The folder of one node's agent."""
        return self.nodes / name

    def postgres(self) -> Path:
        """The folder of the Postgres cluster; as root it is made at the first call."""
        account = plain_account()
        if account is None:
            return self.data_dir / "postgres"
        record = self.data_dir / "postgres.json"
        known = read_json(record, _Elsewhere)
        if known is not None:
            return Path(known.base)
        base = _shared_folder() / secrets.token_hex(4)
        if not can_reach(account, base.parent):
            raise EmbeddedError(f"user {account.name} cannot get into {base.parent}")
        private_folder(base, account)
        write_file(base / "belongs_to", str(self.data_dir).encode(), durable=True)
        write_file(record, msgspec.json.encode(_Elsewhere(str(base))), durable=True)
        return base

    def has_postgres(self) -> bool:
        """Whether a cluster was ever made for this data dir."""
        record = self.data_dir / "postgres.json"
        return record.exists() or (self.data_dir / "postgres").exists()

    def delete(self) -> None:
        """Remove the platform with everything it ever knew. Only when nothing of it runs."""
        known = read_json(self.data_dir / "postgres.json", _Elsewhere)
        if known is not None and (Path(known.base) / "belongs_to").exists():
            shutil.rmtree(known.base, ignore_errors=True)
        shutil.rmtree(self.data_dir, ignore_errors=True)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold this data dir alone. Raises `EmbeddedError` when another process does."""
        lock = os.open(self.data_dir / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise EmbeddedError(f"another headrace works on {self.data_dir} now") from None
        try:
            yield
        finally:
            os.close(lock)


def default_data_dir() -> Path:
    """`$XDG_DATA_HOME/headrace`, usually `~/.local/share/headrace`."""
    home = os.environ.get("XDG_DATA_HOME")
    return (Path(home) if home else Path.home() / ".local" / "share") / "headrace"


def _shared_folder() -> Path:
    """Root's folder for what other users must get into: 0711, so nobody can list it."""
    try:
        open_folder(SHARED_DIR, 0o711)
    except OSError as error:
        raise EmbeddedError(f"cannot make {SHARED_DIR}: {error.strerror}") from error
    return SHARED_DIR

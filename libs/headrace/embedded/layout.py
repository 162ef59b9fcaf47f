"""Where everything of one platform is: one folder, and nothing outside of it.

Rule: what is in it is 0700 and 0600. The folder itself too, but for root's: there Postgres runs as a
plain user, who must get to its own folder inside, so that others may pass through and see nothing.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec

from headrace.embedded import EmbeddedError
from headrace.embedded.accounts import open_folder, plain_account, private_folder
from headrace.embedded.default_folder import SHARED_DIR
from headrace.embedded.durability import sync
from headrace.embedded.files import write_file


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
        if self.data_dir.parent == SHARED_DIR:
            _open_shared()
        try:
            self.data_dir.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise EmbeddedError(f"cannot make {self.data_dir}: {error.strerror}") from error
        private_folder(self.data_dir, mode=0o700 if plain_account() is None else 0o711)
        for folder in (self.secrets, self.keys, self.nodes, self.run, self.logs):
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
        """The folder of the Postgres cluster. Raises `EmbeddedError` when an earlier release has put
        it elsewhere.
        """
        inside, elsewhere = self.data_dir / "postgres", self.data_dir / "postgres.json"
        if elsewhere.exists():
            there = msgspec.json.decode(elsewhere.read_bytes()).get("base", "?")
            raise EmbeddedError(
                f"its log lies in {there}, where earlier releases kept it: "
                f"mv {there} {inside} && rm {elsewhere}"
            )
        return inside

    def has_postgres(self) -> bool:
        """Whether a cluster was ever made for this data dir."""
        return (self.data_dir / "postgres").exists()

    def delete(self) -> None:
        """Remove the platform with everything it ever knew. Only when nothing of it runs."""
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


def _open_shared() -> None:
    """Root's folder for what other users must get into: 0711, so nobody can list it."""
    try:
        open_folder(SHARED_DIR, 0o711)
    except OSError as error:
        raise EmbeddedError(f"cannot make {SHARED_DIR}: {error.strerror}") from error

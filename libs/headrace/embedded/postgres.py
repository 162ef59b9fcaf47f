"""One Postgres server over one folder, started, adopted, watched and stopped by us.

Rule: nothing acknowledged is ever lost: fsync and full page writes are on, a stop is a clean stop,
and a server is given the time its recovery takes. It listens on a socket in a 0700 folder only.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from urllib.parse import quote

from headrace.embedded import EmbeddedError, binaries, processes
from headrace.embedded.accounts import Account, can_reach, plain_account, private_folder
from headrace.embedded.durability import sync
from headrace.embedded.files import write_file
from headrace.embedded.processes import Process

INITDB_S_MAX = 120.0
RECOVERY_S_MAX = 3_600.0  # replaying the log after a crash; while it goes on, waiting is right
FAST_STOP_S_MAX = 30.0  # SIGINT: sessions are ended, a checkpoint is written
STUCK_STOP_S = 1.0
IMMEDIATE_STOP_S_MAX = 10.0  # SIGQUIT: recovery happens at the next start
ORPHANS_S_MAX = 5.0  # backends of a killed postmaster notice and go by themselves
SOCKET_PATH_BYTES_MAX = 107  # what the kernel takes as the name of a unix socket
SUPERUSER = "headrace_owner"
PORT = 5432  # names the socket file only

SETTINGS = """\
# Written by headrace at every start; put your own settings into custom.conf.
listen_addresses = ''
port = {port}
unix_socket_directories = '{socket}'
unix_socket_permissions = 0700
fsync = on
full_page_writes = on
synchronous_commit = on
wal_compression = on
max_connections = 60
shared_buffers = 96MB
work_mem = 4MB
maintenance_work_mem = 32MB
max_wal_size = 512MB
min_wal_size = 64MB
max_parallel_workers_per_gather = 0
jit = off
huge_pages = off
password_encryption = 'scram-sha-256'
idle_in_transaction_session_timeout = 60s
max_logical_replication_workers = 0
timezone = 'UTC'
log_timezone = 'UTC'
lc_messages = 'C'
logging_collector = off
log_line_prefix = '%m [%p] %q%u@%d '
log_min_messages = warning
log_checkpoints = off
{versioned}include 'custom.conf'
"""


class Postgres:
    """The server over `base`: `base/data` is the cluster, `base/socket` the way in.

    As root it runs as a plain user, who must be able to get to `base`.
    """

    def __init__(self, base: Path, *, log: Path | None = None) -> None:
        self.base = base
        self.data = base / "data"
        self.log = log or base / "postgres.log"
        self.account: Account | None = plain_account()
        self._lock = -1

    @property
    def socket(self) -> Path:
        """The folder of the socket; a short one elsewhere when `base` has too long a name."""
        near = self.base / "socket"
        if len(os.fsencode(near)) + len(f"/.s.PGSQL.{PORT}") <= SOCKET_PATH_BYTES_MAX:
            return near
        mark = hashlib.sha256(os.fsencode(self.base)).hexdigest()[:12]
        uid = self.account.uid if self.account else os.geteuid()
        return Path(tempfile.gettempdir()) / f"headrace-{uid}-{mark}"

    def dsn(self, database: str = "postgres", user: str = SUPERUSER, password: str = "") -> str:
        """How to connect; the superuser's password is filled in."""
        if user == SUPERUSER and not password:
            password = (self.base / "password").read_text(encoding="ascii").strip()
        return f"postgresql://{user}:{quote(password)}@/{database}?host={self.socket}&port={PORT}"

    def start(self) -> Process:
        """Create what is missing, start it or adopt the one that runs, and wait until it is ready.

        Raises `EmbeddedError`.
        """
        self._prepare_folders()
        self._take_lock()
        running = self.running()
        if running is None:
            self._clear_remains()
            bin_dir = binaries.reachable_by(binaries.postgres_bin_dir(), self.account)
            if not (self.data / "PG_VERSION").exists():
                self._create_cluster(bin_dir)
            self._write_settings()
            running = processes.spawn(
                [str(bin_dir / "postgres"), "-D", str(self.data)],
                env=_environment(),
                log=self.log,
                account=self.account,
            )
        self._wait_ready(running)
        return running

    def discard(self) -> None:
        """Drop a cluster that was never finished. Raises `EmbeddedError` while it runs."""
        if self.running() is not None:
            raise EmbeddedError(f"a Postgres still runs on the unfinished {self.data}")
        shutil.rmtree(self.data, ignore_errors=True)

    def running(self) -> Process | None:
        """The postmaster of this cluster, whoever started it."""
        pid, _status = self._postmaster_file()
        process = processes.identify(pid) if pid else None
        if process is None or not processes.alive(process):
            return None
        try:
            ours = os.readlink(f"/proc/{pid}/cwd") == str(self.data.resolve())
        except OSError:
            return None
        return process if ours else None

    def ready(self) -> bool:
        """Whether it takes connections."""
        return self.running() is not None and self._postmaster_file()[1] == "ready"

    def stop(self) -> None:
        """Stop it cleanly; after the deadline, hard: recovery follows at the next start."""
        process = self.running()
        if process is not None:
            processes.send(process, signal.SIGINT)
            deadline = time.monotonic() + FAST_STOP_S_MAX
            while not processes.wait_exit(process, STUCK_STOP_S) and not _is_stuck(process):
                if time.monotonic() > deadline:
                    break
            processes.end(process, (signal.SIGQUIT, IMMEDIATE_STOP_S_MAX))
        self._release_lock()
        if self.socket.parent != self.base:
            shutil.rmtree(self.socket, ignore_errors=True)

    def _prepare_folders(self) -> None:
        private_folder(self.base, self.account)
        if not can_reach(self.account, self.base):
            name = self.account.name if self.account else "this user"
            raise EmbeddedError(
                f"Postgres runs as {name}, who cannot get into {self.base}: take a --data-dir below"
                " folders that others may pass through, such as /var/lib/headrace/platform"
            )
        private_folder(self.socket, self.account)

    def _take_lock(self) -> None:
        """One supervisor per cluster. The lock goes with this process, however it ends."""
        if self._lock >= 0:
            return
        lock = os.open(self.base / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(lock)
            raise EmbeddedError(f"another process keeps the Postgres in {self.base}") from error
        self._lock = lock

    def _release_lock(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _clear_remains(self) -> None:
        """End backends that outlived a killed postmaster, then drop its marks if its pid is taken.

        Postgres judges those by the pid alone: a stranger with that pid, or the killed one until
        somebody reaps it, would keep it from starting.
        """
        folder = self.data.resolve()
        if not processes.wait_until(lambda: not processes.working_in(folder), ORPHANS_S_MAX):
            for orphan in processes.working_in(folder):
                processes.end(orphan, (signal.SIGQUIT, ORPHANS_S_MAX))
        pid, _status = self._postmaster_file()
        if pid and processes.identify(pid) is not None:
            for mark in (self.data / "postmaster.pid", self.socket / f".s.PGSQL.{PORT}.lock"):
                mark.unlink(missing_ok=True)

    def _create_cluster(self, bin_dir: Path) -> None:
        """Run initdb beside the final place, so that a half-made cluster is never taken for one."""
        scratch = self.base / "data.new"
        shutil.rmtree(scratch, ignore_errors=True)
        shutil.rmtree(self.data, ignore_errors=True)
        password = self.base / "password"
        write_file(password, secrets.token_urlsafe(24).encode(), durable=True)
        if self.account:
            os.chown(password, self.account.uid, self.account.gid)
        options = ["--auth=scram-sha-256", "--data-checksums", "--no-locale", "--encoding=UTF8"]
        options.append(f"--pwfile={password}")
        done = subprocess.run(
            [str(bin_dir / "initdb"), "-D", str(scratch), "-U", SUPERUSER, *options],
            env=_environment(),
            cwd="/",
            capture_output=True,
            check=False,
            timeout=INITDB_S_MAX,
            **self.account.identity() if self.account else {},
        )
        if done.returncode != 0:
            reason = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
            raise EmbeddedError(f"initdb failed: {' '.join(reason)}")
        scratch.rename(self.data)  # initdb has synced what is in it
        sync(self.base)

    def _write_settings(self) -> None:
        version = int((self.data / "PG_VERSION").read_text(encoding="ascii").split(".")[0])
        # Asynchronous reads by worker processes (18) only cost memory at this size.
        versioned = "io_method = sync\n" if version >= 18 else ""
        text = SETTINGS.format(port=PORT, socket=self.socket, versioned=versioned)
        self._write("headrace.conf", text)
        if not (self.data / "custom.conf").exists():
            self._write(
                "custom.conf", "# Your own settings: they win over those of headrace.conf.\n"
            )
        main = self.data / "postgresql.conf"
        line = "include 'headrace.conf'\n"
        if not main.read_text(encoding="utf-8").endswith(line):
            self._write("postgresql.conf", main.read_text(encoding="utf-8") + line)

    def _write(self, name: str, text: str) -> None:
        file = self.data / name
        write_file(file, text.encode(), durable=True)
        if self.account:
            os.chown(file, self.account.uid, self.account.gid)

    def _wait_ready(self, process: Process) -> None:
        deadline = time.monotonic() + RECOVERY_S_MAX
        while self._postmaster_file() != (process.pid, "ready"):
            if not processes.alive(process):
                processes.reap(process)
                raise EmbeddedError(f"Postgres did not start: {_last_line(self.log)}")
            if time.monotonic() > deadline:
                raise EmbeddedError(f"Postgres still recovers after {RECOVERY_S_MAX:.0f} s")
            time.sleep(processes.POLL_S)

    def _postmaster_file(self) -> tuple[int, str]:
        """The pid and status that Postgres wrote; (0, "") without one."""
        try:
            lines = (self.data / "postmaster.pid").read_text(encoding="utf-8").splitlines()
            return int(lines[0]), lines[7].strip() if len(lines) > 7 else "starting"
        except (FileNotFoundError, NotADirectoryError, IndexError, ValueError):
            return 0, ""


def _environment() -> dict[str, str]:
    """A bare environment: no PG* variable or locale of the caller changes what the server does."""
    return {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C", "TZ": "UTC"}


def _is_stuck(postmaster: Process) -> bool:
    """Whether a fast stop waits for ever.

    Asked to stop while it recovers, Postgres 18 forgets to tell its checkpointer: that is then the
    last child and has nothing to do. One that writes the last checkpoint says so in its title.
    """
    titles = [processes.title(child) for child in processes.children_of(postmaster.pid)]
    return titles == ["postgres: checkpointer"]


def _last_line(log: Path) -> str:
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    except OSError:
        lines = []
    said = [line for line in lines if re.search(r"FATAL|ERROR|PANIC", line)] or lines
    return (said[-1] if said else "it said nothing") + f" (more in {log})"

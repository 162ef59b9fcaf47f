"""Real servers for the tests: one Postgres and one NATS per run, or the ones the environment names.

`database` is a fresh database of its own for each test that asks for it.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import uuid
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import hypothesis
import pytest

from headrace.embedded import processes
from headrace.embedded.accounts import plain_account, private_folder
from headrace.embedded.nats import Nats
from headrace.embedded.postgres import Postgres
from headrace.embedded.processes import Process

# An example may take as long as it takes: the machine may do something else for some seconds. All
# runs try the same ones, so that a change fails for what it changed; `make test-fuzz` tries others.
hypothesis.settings.register_profile(
    "patient",
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
    derandomize="HEADRACE_FUZZ_EXAMPLES" not in os.environ,
)
hypothesis.settings.load_profile("patient")
LONGEST_FIRST = ("tests/simulation", "tests/end_to_end")  # so that no core is left idle at the end
SQL_S_MAX = 60.0
QUIT_S_MAX = 60.0


def pytest_configure() -> None:
    """Let Ctrl-C be heard by what the tests start, though a script runs them in its background."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the folders that take longest; their files in the usual order."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST_FIRST))


# Waits for the end of the run, however it comes, and then ends what the run left behind.
JANITOR = r"""
cat >/dev/null
for file in "$1"/*/data/postmaster.pid; do
    [ -f "$file" ] && kill -QUIT "$(head -n 1 "$file")"
done
for file in "$1"/*/state.json; do
    [ -f "$file" ] && kill -TERM "$(sed -n 's/.*"pid":\([0-9]*\).*/\1/p' "$file")"
done 2>/dev/null
sleep 0.2
rm -rf "$1"
"""


@pytest.fixture(scope="session")
def server_folder() -> Iterator[Path]:
    """A short-named folder that the user Postgres runs as can get to; removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix="headrace-test-"))
    folder.chmod(0o711)
    with subprocess.Popen(
        ["/bin/sh", "-c", JANITOR, "janitor", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as janitor:
        yield folder
        shutil.rmtree(folder, ignore_errors=True)
        assert janitor.stdin is not None
        janitor.stdin.close()


@pytest.fixture(scope="session")
def postgres_dsn(server_folder: Path) -> Iterator[str]:
    """A superuser's DSN of a running Postgres (fsync on). No test may keep state in it."""
    given = os.environ.get("HEADRACE_PG_DSN")
    if given:
        yield given
        return
    server = Postgres(private_folder(server_folder / "pg", plain_account()))
    process = server.start()
    yield server.dsn()
    processes.end(process, (signal.SIGQUIT, QUIT_S_MAX))  # nobody needs its last checkpoint


@pytest.fixture
def database(postgres_dsn: str) -> Iterator[str]:
    """The DSN (superuser) of a fresh, empty database, dropped after the test."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    run_sql(postgres_dsn, f'CREATE DATABASE "{name}"')
    yield with_database(postgres_dsn, name)
    run_sql(postgres_dsn, f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


class NatsServer:
    """A NATS server that a test may restart, kill and wipe. `url` stays the same."""

    def __init__(self, base: Path, authentication: str = "") -> None:
        self._nats = Nats(base, authentication=authentication)
        self._nats.start()

    @property
    def url(self) -> str:
        return self._nats.url

    @property
    def process(self) -> Process:
        running = self._nats.running()
        assert running is not None
        return running

    def start(self) -> None:
        self._nats.start()

    def stop(self) -> None:
        self._nats.stop()

    def restart(self) -> None:
        """A clean stop and a start on the same port."""
        self._nats.stop()
        self._nats.start()

    def kill(self) -> None:
        """kill -9; it stays down until `start`."""
        processes.end(self.process)

    def wipe(self) -> None:
        """kill -9, lose everything JetStream kept, start again."""
        self.kill()
        self._nats.wipe()
        self._nats.start()


@pytest.fixture(scope="session")
def nats_server(server_folder: Path) -> Iterator[NatsServer]:
    """A server without authentication, shared by the run: use stream and subject names of your own.

    Tests that kill or wipe take `own_nats` instead.
    """
    server = NatsServer(server_folder / "nats")
    yield server
    server.stop()


@pytest.fixture
def own_nats(server_folder: Path) -> Iterator[NatsServer]:
    """A server for this test alone."""
    base = server_folder / f"nats-{uuid.uuid4().hex[:8]}"
    server = NatsServer(base)
    yield server
    server.stop()
    shutil.rmtree(base, ignore_errors=True)


@pytest.fixture(scope="session")
def nats_url(request: pytest.FixtureRequest) -> str:
    """Where NATS is: HEADRACE_NATS_URL, or the run's own server."""
    given = os.environ.get("HEADRACE_NATS_URL")
    return given or request.getfixturevalue("nats_server").url


def with_database(dsn: str, name: str) -> str:
    """The same server and user, another database."""
    parts = urlsplit(dsn)
    return urlunsplit(parts._replace(path=f"/{name}"))


def run_sql(dsn: str, statement: str) -> None:
    """One statement outside any transaction, whatever event loop the test runs on."""
    import asyncpg

    async def run() -> None:
        connection = await asyncpg.connect(dsn, timeout=SQL_S_MAX, command_timeout=SQL_S_MAX)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()

    _in_thread(run())


def _in_thread(work: Coroutine[Any, Any, None]) -> None:
    failures: list[BaseException] = []

    def target() -> None:
        try:
            asyncio.run(work)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=target)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]

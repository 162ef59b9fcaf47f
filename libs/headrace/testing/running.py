"""A platform of a test run: started in a folder of its own, removed when the run is over.

Rule: it is removed however the run ends. A janitor process waits for our end of a pipe to close,
which it does when we are killed, too.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from headrace.client import Client, JobRow
from headrace.client.model import ENDED
from headrace.embedded import platform, secrets, settings
from headrace.embedded.layout import Layout
from headrace.embedded.nats import Nats
from headrace.testing.ports import free_port

VERB_S_MAX = 120.0
END_S_MAX = 60.0  # of a job that a test waits for
POLL_S = 0.05
OTHERS = ("HEADRACE_URL", "HEADRACE_TOKEN", "HEADRACE_PG_DSN", "HEADRACE_NATS_URL")  # not ours

_JANITOR = """
cat >/dev/null
[ -e "$2/data/settings.json" ] && "$1" -m headrace.cli down --data-dir "$2/data" --delete-data --yes
rm -rf "$2"
"""


class RunningPlatform:
    """A platform. `home` holds its data and the command line's configuration, `env` is what a
    program needs to reach it.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        if os.geteuid() == 0:
            home.chmod(0o711)  # the user that Postgres runs as is to get to its folder in there
        self.data_dir = home / "data"
        self.layout = Layout(self.data_dir)
        self.env = {
            **{name: value for name, value in os.environ.items() if name not in OTHERS},
            "XDG_CONFIG_HOME": str(home / "config"),
            "HEADRACE_PROJECT": "default",
            "HEADRACE_NODE_SHOWN": tempfile.gettempdir(),  # jobs and tests meet there
        }

    @property
    def url(self) -> str:
        """The gateway's address; empty while it is down."""
        said = platform.state(self.layout)
        return said.url if said else ""

    @property
    def nats_url(self) -> str:
        """Where its bus is."""
        return Nats(self.layout.nats).url

    @property
    def token(self) -> str:
        """The admin's token."""
        return (self.layout.secrets / "admin.token").read_text()

    def client(self, project: str = "default") -> Client:
        """A client of its own, as admin."""
        certificate, _ = secrets.certificate(self.layout, settings.read(self.layout))
        return Client(self.url, self.token, project, certificate)

    def ended(self, job: str) -> JobRow:
        """The job's row, once it has ended. Raises `TimeoutError` after `END_S_MAX`."""
        client = self.client()
        deadline_s = time.monotonic() + END_S_MAX
        while (row := client.job(job).job).state not in ENDED:
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"{job} is {row.state} after {END_S_MAX:.0f} s: {row.why}")
            time.sleep(POLL_S)
        return row

    def headrace(
        self, *arguments: str, check: bool = True, stdin: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run one command line against it. Raises `AssertionError` when it fails, if `check`."""
        done = subprocess.run(
            [sys.executable, "-m", "headrace.cli", *arguments],
            env=self.env,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=VERB_S_MAX,
            check=False,
        )
        assert not check or done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        return done

    def up(self, *options: str) -> str:
        """Start it; what `headrace up` printed."""
        where = ("--data-dir", str(self.data_dir), "--detach")
        return self.headrace("up", *where, *options).stdout

    def down(self, *options: str) -> str:
        """Stop it; what `headrace down` printed."""
        return self.headrace("down", "--data-dir", str(self.data_dir), "--yes", *options).stdout


@contextlib.contextmanager
def started_platform(*options: str, **env: str) -> Iterator[RunningPlatform]:
    """A platform started with these options of `headrace up` and these variables."""
    made = RunningPlatform(Path(tempfile.mkdtemp(prefix="headrace-test-")))
    with started(made, *options, **env):
        yield made


@contextlib.contextmanager
def started(made: RunningPlatform, *options: str, **env: str) -> Iterator[None]:
    """Start it so, at ports that stay free for it while it is down, so that it can be started there
    again; it is gone with its data afterwards.
    """
    made.env |= env
    where = ["--listen", f"127.0.0.1:{free_port()}", "--metrics-port", "0"]
    if "HEADRACE_NATS_URL" not in made.env:
        where += ["--bus-port", f"{free_port()}"]
    with removed_at_the_end(made):
        made.up(*where, *options)
        yield


def removed_at_the_end(made: RunningPlatform) -> subprocess.Popen[bytes]:
    """A context after which the platform is stopped and its folder gone, also when we are killed."""
    return subprocess.Popen(  # its `with` closes its input, and waits for it
        ["/bin/sh", "-c", _JANITOR, "janitor", sys.executable, str(made.home)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )

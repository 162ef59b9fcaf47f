"""The servers run for a plain user as they do for root."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from headrace.embedded.accounts import Account, can_reach, plain_account, private_folder
from headrace.embedded.binaries import nats_server, postgres_bin_dir

ROOT = Path(__file__).parents[2]
SCRIPT = """
import os, sys
from pathlib import Path
from headrace.embedded.layout import Layout
from headrace.embedded.nats import Nats
from headrace.embedded.postgres import Postgres
layout = Layout(Path(sys.argv[1]))
layout.create()
postgres, nats = Postgres(layout.postgres()), Nats(layout.nats)
pids = [postgres.start().pid, nats.start().pid]
print(*(os.stat(f"/proc/{pid}").st_uid for pid in pids), layout.postgres())
postgres.stop()
nats.stop()
"""


def interpreter_for(account: Account) -> str:
    """One of our version that this user can run; ours may be in somebody's home."""
    wanted = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for candidate in (sys.executable, shutil.which(wanted, path="/usr/local/bin:/usr/bin")):
        if candidate and can_reach(account, Path(candidate)):
            return candidate
    pytest.skip(f"user {account.name} can run no {wanted}")


@pytest.mark.skipif(os.geteuid() != 0, reason="the whole run is a plain user's")
def test_both_servers_start_and_stop_as_a_plain_user(server_folder):
    account = plain_account()
    packages = sysconfig.get_path("purelib")
    if not all(can_reach(account, Path(path)) for path in (packages, ROOT, nats_server())):
        pytest.skip(f"user {account.name} cannot reach the installation")
    home = private_folder(server_folder / "plain", account)
    done = subprocess.run(
        [interpreter_for(account), "-c", SCRIPT, str(home / "data")],
        env={
            "PYTHONPATH": f"{ROOT / 'libs'}:{packages}",
            "HEADRACE_NATS_BIN": str(nats_server()),
            "HEADRACE_PG_BIN": str(postgres_bin_dir()),
            "HOME": str(home),
            "PATH": "/usr/bin:/bin",
        },
        capture_output=True,
        text=True,
        cwd="/",
        **account.identity(),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [
        str(account.uid),
        str(account.uid),
        str(home / "data" / "postgres"),
    ]

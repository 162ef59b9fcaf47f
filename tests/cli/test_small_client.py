"""What a laptop needs: three small packages, and nothing that only Linux has."""

import asyncio
import os
import subprocess
import sys

import pytest
from tests.gateway.world import TOKEN

# Imports as on a laptop with macOS or Windows after `pip install headrace`, and nothing else there.
LAPTOP = """
import sys

LINUX = {"fcntl", "termios", "tty", "pty", "pwd", "grp", "resource"}
CLIENT = {"headrace", "msgspec", "yaml", "websockets", "_yaml"}


class Laptop:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top in LINUX or not (top in CLIENT or top in sys.stdlib_module_names):
            raise ModuleNotFoundError(f"No module named {name!r} on a laptop", name=name)


for name in LINUX:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Laptop())
import asyncio, os, signal, tempfile, urllib.request, uuid
LACKS = {
    signal: ("SIGWINCH", "SIGKILL", "SIGUSR1", "SIGHUP"),
    os: ("O_CLOEXEC", "geteuid", "getuid", "fork", "chown", "fchmod", "pread", "pwrite"),
}
sys.platform = sys.argv[1]
for module, names in LACKS.items() if sys.platform == "win32" else ():
    for name in names:
        delattr(module, name)
from headrace.cli.__main__ import main
for line in sys.argv[2:]:
    sys.argv = ["headrace", *line.split()]
    try:
        code = main()
    except SystemExit as error:
        code = error.code
    print("ended", code, line, flush=True)
"""

LINES = (
    "login {url} --token {token} --context there",
    "login {url} --token {token} --context there",
    "context list",
    "ps",
    "projects",
    "node list",
    "events -o json",
    "submit --help",
    "run --help",
    "exec --help",
    "port-forward --help",
    "sbatch --help",
    "completion zsh",
)


@pytest.mark.parametrize("system", ["darwin", "win32"])
async def test_a_laptop_needs_no_more_than_the_client(world, tmp_path, system):
    lines = [line.format(url=world.url, token=TOKEN) for line in LINES]
    env = {
        "XDG_CONFIG_HOME": str(tmp_path),
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
    }
    command = [sys.executable, "-c", LAPTOP, system, *lines]
    done = await asyncio.to_thread(
        subprocess.run, command, env=env, capture_output=True, text=True, timeout=60
    )
    assert done.stderr == ""
    ended = [line for line in done.stdout.splitlines() if line.startswith("ended ")]
    assert ended == [f"ended 0 {line}" for line in lines]


@pytest.mark.parametrize("words", ["up", "down", "verify", "doctor", "node join x"])
def test_what_only_linux_can_be_is_said_elsewhere(tmp_path, words):
    env = {"HOME": str(tmp_path), "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    command = [sys.executable, "-c", LAPTOP, "win32", words]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
    assert done.stdout == f"ended 2 {words}\n"
    assert "machines with Linux" in done.stderr

"""The systemd unit of a node's agent: written, enabled, started.

Rule: workers outlive the agent, so only the agent's own process is ended with the unit; an agent
that was refused is not started again.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from headrace.embedded.files import write_file

UNIT = "headrace-node.service"
UNIT_FILE = Path("/etc/systemd/system") / UNIT
LOCAL = Path("/etc/headrace/node.local")  # what this machine's administrator chose
RUN_S_MAX = 60.0  # of systemctl

TEXT = """\
# The node agent of one machine. Workers outlive it: restarting the agent stops no job.
# A machine becomes a node by `headrace node join URL --token T --install-service`, which writes this
# unit. Where nodes are prepared by hand, /etc/headrace/node is a link to the folder that
# deploy/prepare.py --node n1 wrote. What differs on this machine (HEADRACE_NODE_GPUS, _ADDRESS,
# _LABELS, _PORTS) is set in {local}.
[Unit]
Description=Headrace node agent
After=network-online.target
Wants=network-online.target
StartLimitIntervalSec=0

[Service]
Environment={folder} HEADRACE_RUN_DIR=/run/headrace-node
EnvironmentFile=-/etc/headrace/node/env
EnvironmentFile=-{local}
RuntimeDirectory=headrace-node
RuntimeDirectoryMode=0700
StateDirectory=headrace-node
StateDirectoryMode=0711
ExecStart={python} -m headrace.node_agent
# Jobs run in control groups of their own below this unit's, and as accounts that nobody else has
# (HEADRACE_NODE_ACCOUNTS is the first) unless their user is mapped (HEADRACE_NODE_USERS).
Delegate=memory cpu pids
KillMode=process
Restart=always
RestartSec=500ms
RestartPreventExitStatus=78

[Install]
WantedBy=multi-user.target
"""


class ServiceError(Exception):
    """The service could not be installed, and the line says why."""


def text(folder: Path, python: str = sys.executable) -> str:
    """The unit for the node in this folder."""
    named = _quoted(f"HEADRACE_NODE_DIR={folder}".replace("%", "%%"))
    return TEXT.format(folder=named, python=_quoted(python.replace("%", "%%")), local=LOCAL)


def install(folder: Path, env: Mapping[str, str]) -> str:
    """Write the unit and let systemd run it from now on; what was done, in a line.

    Raises `ServiceError`, `OSError`.
    """
    LOCAL.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    lines = (f"{name}={_quoted(value)}\n" for name, value in sorted(env.items()))
    for path, content in ((LOCAL, "".join(lines)), (UNIT_FILE, text(folder))):
        write_file(path, content.encode(), mode=0o644, durable=True)
    for words in (("daemon-reload",), ("enable", "--now", UNIT)):
        try:
            _run("systemctl", *words)
        except ServiceError as error:
            raise ServiceError(f"{UNIT_FILE} is written, but {error}") from error
    return f"{UNIT} runs (systemctl status {UNIT}; journalctl -u {UNIT})"


def _quoted(word: str) -> str:
    """As systemd reads it back, in units and in environment files."""
    if re.fullmatch(r"[A-Za-z0-9_./%=,:+@-]+", word):
        return word
    return '"' + re.sub(r"([\"\\])", r"\\\1", word) + '"'


def _run(program: str, *words: str) -> None:
    try:
        done = subprocess.run(
            [program, *words], capture_output=True, text=True, check=False, timeout=RUN_S_MAX
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ServiceError(f"{program} failed: {error}") from error
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        why = lines[-1] if lines else "no reason given"
        raise ServiceError(f"{program} {words[0]} failed: {why}")

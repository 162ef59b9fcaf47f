"""The systemd unit of a node's agent: written, enabled, started.

Rule: workers outlive the agent, so only the agent's own process is ended with the unit; an agent
that was refused is not started again.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

UNIT = "headrace-node.service"
UNIT_FILE = Path("/etc/systemd/system") / UNIT
LOCAL = Path("/etc/headrace/node.local")  # what this machine's administrator chose
SYSTEMCTL_S_MAX = 60.0

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
Environment=HEADRACE_NODE_DIR={folder} HEADRACE_RUN_DIR=/run/headrace-node
EnvironmentFile=-/etc/headrace/node/env
EnvironmentFile=-{local}
RuntimeDirectory=headrace-node
RuntimeDirectoryMode=0700
StateDirectory=headrace-node
StateDirectoryMode=0711
ExecStart={python} -m headrace.node_agent
# Jobs run in control groups of their own below this unit's, and as headrace-jobs unless their user
# is mapped (HEADRACE_NODE_USERS): useradd --system headrace-jobs
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
    return TEXT.format(folder=folder, python=python, local=LOCAL)


def install(folder: Path, env: Mapping[str, str]) -> str:
    """Write the unit, let systemd run it from now on; what was done, in a line.

    Raises `ServiceError`, `OSError`.
    """
    LOCAL.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    lines = (f"{name}='{value}'\n" for name, value in sorted(env.items()))
    LOCAL.write_text("".join(lines), encoding="utf-8")
    UNIT_FILE.write_text(text(folder), encoding="utf-8")
    for words in (("daemon-reload",), ("enable", "--now", UNIT)):
        _systemctl(*words)
    return f"{UNIT} runs (systemctl status {UNIT}; journalctl -u {UNIT})"


def _systemctl(*words: str) -> None:
    try:
        done = subprocess.run(
            ["systemctl", *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=SYSTEMCTL_S_MAX,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ServiceError(f"{UNIT_FILE} is written, but systemctl failed: {error}") from error
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        why = lines[-1] if lines else "no reason given"
        raise ServiceError(f"{UNIT_FILE} is written, but systemctl {words[0]} failed: {why}")

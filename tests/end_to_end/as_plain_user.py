"""Becomes an account that is not root, where no user namespaces can be made: `python FILE NUMBER HOME
COMMAND…`, as root.

The interpreter is shown to the account also below folders that are closed to it. Namespaces are
forbidden to it by a limit of the user namespace in which it is, and which has every account.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from headrace.node_agent.isolation import Limits, Processes, plan_of, ways
from headrace.node_agent.supervision import kernel
from headrace.node_agent.supervision.confinement import Confinement

ALL = b"0 0 4294967295"
LIMIT = "/proc/sys/user/max_user_namespaces"


def main(number: int, home: str, command: list[str]) -> None:
    """Never returns."""
    _limit_namespaces()
    account = (number, number, [])
    covers = ways.covers_of(account, [home, *ways.programs()])
    plan = plan_of(Processes(), "plain", Limits(), account)
    plan["covers"] = [
        (folder, [(path, path != home) for path in paths]) for folder, paths in covers.items()
    ]
    plan["mounts"] = [(_named(number, home), "/etc/passwd", True)]
    Confinement(plan).enter()
    env = os.environ | {"HOME": home, "USER": "plain", "LOGNAME": "plain"}
    os.execve(command[0], command, env)


def _named(number: int, home: str) -> str:
    """The machine's accounts and this one, in a file: Postgres asks for its name."""
    line = f"plain:x:{number}:{number}::{home}:/bin/sh"
    made = Path(home) / "passwd"
    made.write_text(f"{Path('/etc/passwd').read_text().rstrip()}\n{line}\n")
    made.chmod(0o644)
    return str(made)


def _limit_namespaces() -> None:
    """Be in a user namespace like the machine's own, where nobody makes another."""
    ready, go = os.pipe(), os.pipe()
    parent = os.getpid()
    if os.fork() == 0:
        os.read(ready[0], 1)
        for table in ("uid_map", "gid_map"):
            Path(f"/proc/{parent}/{table}").write_bytes(ALL)
        os.write(go[1], b"1")
        os._exit(0)
    kernel.leave_users()
    os.write(ready[1], b"1")
    os.read(go[0], 1)
    os.wait()
    Path(LIMIT).write_text("0")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3:])

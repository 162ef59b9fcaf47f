"""`node join` and `node token`: how a machine becomes part of a fleet.

Rule: the join token goes into a file that only the agent reads, never onto a command line of ours,
into an environment or a log.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import subprocess
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

from headrace.cli.app import LINUX_ONLY
from headrace.cli.arguments import duration_us
from headrace.cli.exits import DONE, FAILED, REFUSED, USAGE, printable, report
from headrace.cli.output import moment, show, table
from headrace.cli.service_unit import ServiceError, install
from headrace.client.client import Client
from headrace.trust import join_token, order
from headrace.trust.join_token import JoinTokenRow

SYSTEM_DIR = Path("/var/lib/headrace-node")
MEMBER = "member.json"  # what a folder has whose machine has joined
JOINED_WITH = "joined_with.json"  # the HEADRACE_NODE_* of its agent, when it joined
VARIABLES, DIR = "HEADRACE_NODE_", "HEADRACE_NODE_DIR"
NAME_LENGTH_MAX = 63
SECOND_US = 1_000_000
STDIN = "-"
LOOPBACK = ("127.0.0.1", "::1", "localhost")
TOKENS = ("TOKEN", "STATE", "USED", "EXPIRES", "APPROVAL", "NODES")
AGENT = (sys.executable, "-m", "headrace.node_agent")


def join_options(parser: ArgumentParser) -> None:
    """The arguments of `node join`, of which only the first is needed."""
    parser.add_argument("--name", default="", help="of the node; else from the host's name")
    folder_option(parser)
    parser.add_argument("--gpus", default="auto", help="auto, or simulated:8xH100-80GB")
    parser.add_argument("--address", default="", help="where other nodes reach this one")
    parser.add_argument(
        "--label", action="append", default=[], metavar="NAME=VALUE", help="may be repeated"
    )
    parser.add_argument(
        "--install-service", action="store_true", help="let systemd run the agent (as root)"
    )


def token_options(parser: ArgumentParser) -> None:
    """The arguments of `node token`."""
    parser.add_argument("--uses", type=int, default=1, help="how many machines may use it (1)")
    parser.add_argument(
        "--expires", type=_duration, default="1h", metavar="DURATION", help="such as 15m (1h)"
    )
    parser.add_argument(
        "--auto-approve", action="store_true", help="let them in without node approve"
    )
    parser.add_argument(
        "--revoke", default="", metavar="ID", help="take this token back (see node tokens)"
    )


def join(
    head: str,
    given: str,
    *,
    name: str,
    folder: str,
    gpus: str,
    address: str,
    labels: list[str],
    install_service: bool,
) -> int:
    """Join the platform at `head`, then run the agent here, or let systemd run it."""
    if sys.platform != "linux":
        return report(f"headrace node join: {LINUX_ONLY}", USAGE)
    try:
        token = join_token.parse(_token(given))
    except ValueError as error:
        return report(f"headrace node join: {error}", USAGE)
    node = name or node_name(socket.gethostname())
    where = Path(folder).expanduser().absolute() if folder else default_folder()
    told = {"GPUS": gpus, "ADDRESS": address, "LABELS": ",".join(labels)}
    env = {f"HEADRACE_NODE_{what}": value for what, value in told.items() if value}
    if not is_name(node):
        rule = "has 1 to 63 of a-z 0-9 and '-', not starting with '-'"
        return report(f"refused: --name = {node} — {rule}", REFUSED)
    if (where / MEMBER).exists():
        line = (
            f"{where} has joined already: {run_line(where)} starts its agent; to join anew, headrace"
            " node delete, then rm -r it"
        )
        return report(f"headrace node join: {line}", FAILED)
    wanted = order.Order(node=node, url=head, token=token.text())
    try:
        return _carry_out(where, wanted, env, as_service=install_service)
    except (OSError, ServiceError) as error:
        return report(f"headrace node join: {error}", FAILED)


def _carry_out(where: Path, wanted: order.Order, env: dict[str, str], *, as_service: bool) -> int:
    """Join, and see to it that the agent runs. Raises `OSError`, `ServiceError`."""
    where.mkdir(mode=0o700, parents=True, exist_ok=True)
    order.give(where, wanted)
    env = {**_node_variables(), **env}
    told = _environment(where, env)
    reserving = ("--reserve",) if as_service else ()
    joined = subprocess.run([*AGENT, "--join", str(where), *reserving], env=told, check=False)
    if joined.returncode != DONE:
        return joined.returncode
    order.replace(where / JOINED_WITH, json.dumps(env).encode())
    if as_service:
        print(printable(install(where, env)))
        return DONE
    print("  its agent runs here until Ctrl-C; jobs run on without it")
    print(printable(f"  to start it again: {run_line(where)}"), flush=True)
    return _become_agent(told)


def run_options(parser: ArgumentParser) -> None:
    """The arguments of `node run`."""
    folder_option(parser)


def folder_option(parser: ArgumentParser) -> None:
    """Which node of this machine."""
    where = f"where the node is kept ({_default_text()})"
    parser.add_argument("--dir", default="", metavar="FOLDER", help=where)


def run(folder: str) -> int:
    """Run the agent of a node that has joined, with all that it was joined with. What is in the
    environment now (`HEADRACE_NODE_GPUS`, …) comes before that.
    """
    if sys.platform != "linux":
        return report(f"headrace node run: {LINUX_ONLY}", USAGE)
    where = Path(folder).expanduser().absolute() if folder else default_folder()
    if not (where / MEMBER).exists():
        line = f"{where} has not joined a platform: headrace node join URL --token …"
        return report(f"headrace node run: {line}", FAILED)
    try:
        env: dict[str, str] = json.loads((where / JOINED_WITH).read_bytes())
    except FileNotFoundError:
        env = {}
    except (OSError, ValueError) as error:
        return report(f"headrace node run: {where / JOINED_WITH}: {error}", FAILED)
    told = _environment(where, {**env, **_node_variables()})
    return _become_agent(told)


def run_line(folder: Path) -> str:
    """What is typed to run the agent of the node that is kept there."""
    where = "" if folder == default_folder() else f" --dir {shlex.quote(str(folder))}"
    return f"headrace node run{where}"


def _become_agent(env: dict[str, str]) -> NoReturn:
    os.execve(sys.executable, list(AGENT), env)  # noqa: S606 - ours


def _node_variables() -> dict[str, str]:
    """What the environment says of a node."""
    named = (name for name in os.environ if name.startswith(VARIABLES) and name != DIR)
    return {name: os.environ[name] for name in named}


def make_token(client: Client, *, uses: int, expires: str, auto_approve: bool) -> int:
    """Make a join token and print the line to type on the machine that is to join."""
    lasts_s = duration_us(expires) // SECOND_US
    token = client.create_join_token(uses=uses, lasts_s=lasts_s, auto_approve=auto_approve)
    print(printable(join_line(seen_from_outside(client.url), token.text())))
    machines = "1 machine" if uses == 1 else f"{uses} machines"
    print(f"  token {token.id}: for {machines}, valid {expires}, shown once")
    return DONE


def revoke_token(client: Client, token: str) -> int:
    """Nobody joins with it any more."""
    client.revoke_join_token(token)
    print(printable(f"token {token} revoked; who has joined with it stays"))
    return DONE


def list_tokens(rows: list[JoinTokenRow], output: str) -> int:
    """Every token that is remembered; never its secret."""
    if output in ("json", "yaml"):
        show(rows, output)
        return DONE
    lines = [
        (row.token, row.state, f"{len(row.nodes)} of {row.uses}", moment(row.expires_at_us),
         "by itself" if row.auto_approve else "node approve", " ".join(row.nodes) or "–")
        for row in rows
    ]  # fmt: skip
    table(TOKENS, lines, wide=output == "wide")
    return DONE


def join_line(url: str, token: str) -> str:
    """What is typed on a machine that is to join."""
    return f"headrace node join {url} --token {token}"


def seen_from_outside(url: str) -> str:
    """The address for other machines of a platform that is on this one, over TLS."""
    parts = urlsplit(url)
    if parts.scheme != "https" or parts.hostname not in LOOPBACK:
        return url
    return f"https://{socket.gethostname()}:{parts.port}"


def node_name(host: str) -> str:
    """A node's id from a host's name: its first label, as far as it can be one."""
    return re.sub(r"[^a-z0-9-]+", "-", host.partition(".")[0].lower()).strip("-")[:NAME_LENGTH_MAX]


def is_name(name: str) -> bool:
    """Whether this can be a node's id."""
    return re.fullmatch(r"[a-z0-9][a-z0-9-]{0,62}", name) is not None


def default_folder() -> Path:
    """Where the node is kept: of the whole machine as root, else one's own."""
    return Path(_default_text()).expanduser()


def _default_text() -> str:
    """The same for people, who need not have a home to be told."""
    if sys.platform == "linux" and os.geteuid() == 0:
        return str(SYSTEM_DIR)
    return f"{os.environ.get('XDG_DATA_HOME') or '~/.local/share'}/headrace-node"


def _duration(text: str) -> str:
    duration_us(text)
    return text


def _token(given: str) -> str:
    """`-` is standard input; without any, the environment. Raises `ValueError`."""
    if given == STDIN:
        return sys.stdin.readline()
    found = given or os.environ.get("HEADRACE_JOIN_TOKEN", "")
    if not found:
        raise ValueError("--token TOKEN, --token - (from standard input) or HEADRACE_JOIN_TOKEN")
    return found


def _environment(folder: Path, more: dict[str, str]) -> dict[str, str]:
    left_out = ("HEADRACE_JOIN_TOKEN", "HEADRACE_TOKEN", "HEADRACE_URL", "HEADRACE_CERTIFICATE")
    env = {name: value for name, value in os.environ.items() if name not in left_out}
    return {**env, **more, DIR: str(folder)}

"""`doctor`: whether this machine can be a good node, and what mends what is not well; with `--security`
the weak spots of this machine, of the platform that is kept here, and of the one that is asked.
"""

from __future__ import annotations

import os
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import msgspec

from headrace.cli.arguments import add_output
from headrace.cli.data_folder import data_dir_of, data_dir_option
from headrace.cli.exits import DONE, FAILED, printable
from headrace.cli.joining import AGENT, default_folder, folder_option
from headrace.cli.output import show
from headrace.client.client import Client
from headrace.client.errors import ClientError
from headrace.doctor import Check, failed, is_well, lines


def doctor_options(parser: ArgumentParser) -> None:
    """The arguments of `doctor`."""
    parser.add_argument("head", nargs="?", default="", metavar="URL", help="of a platform to join")
    folder_option(parser)
    parser.add_argument(
        "--security",
        action="store_true",
        help="instead: the weak spots of this machine, and of the platform kept here or asked",
    )
    data_dir_option(parser, "of the platform kept here, with --security")
    add_output(parser)


def doctor(*, head: str, dir: str, security: bool, data_dir: Path | None, output: str) -> int:  # noqa: A002
    """Look at driver, NVML, MIG mode, cgroups, clock, ports, disk, and the way to the platform; with
    `--security` at what keeps jobs apart and others out.
    """
    folder = Path(dir).expanduser().absolute() if dir else default_folder()
    env = {**os.environ, "HEADRACE_NODE_DIR": str(folder)}
    if security:
        return _tell([*_of_machine(env), *_of_platform(head, data_dir)], output)
    form = "json" if output in ("json", "yaml") else "table"
    words = [*AGENT, "--doctor", form, *([head] if head else [])]
    if output != "yaml":
        return subprocess.run(words, env=env, check=False).returncode
    done = subprocess.run(words, env=env, check=False, stdout=subprocess.PIPE)
    show(msgspec.json.decode(done.stdout), output)
    return done.returncode


def _of_machine(env: dict[str, str]) -> list[Check]:
    """What its agent finds; nothing where there is no agent, as on a laptop."""
    if sys.platform != "linux" or find_spec(AGENT[-1]) is None:
        return []
    words = [*AGENT, "--doctor", "json", "--security"]
    done = subprocess.run(words, env=env, check=False, capture_output=True, text=True)
    try:
        return msgspec.json.decode(done.stdout, type=list[Check])
    except msgspec.MsgspecError:
        why = (done.stderr.strip() or "said nothing").rpartition("\n")[2]
        return [failed("agent", why, "pip install 'headrace[agent]', or mend what it names")]


def _of_platform(head: str, data_dir: Path | None) -> Iterator[Check]:
    from headrace.cli import hardening

    try:
        client = Client.from_config(url=head)
    except ClientError:
        client = None  # this machine is nobody's place to ask from
    if sys.platform == "linux":
        yield from _of_files(data_dir, client.url if client else "")
    if client is not None:
        yield from hardening.of_platform(client)


def _of_files(data_dir: Path | None, url: str) -> Iterator[Check]:
    from headrace.embedded.layout import Layout

    layout = Layout(data_dir_of(data_dir))
    if layout.exists():
        from headrace.cli import hardening_files

        yield from hardening_files.of_data_folder(layout, url)


def _tell(checks: list[Check], output: str) -> int:
    if output in ("json", "yaml"):
        show(checks, output)
    else:
        for line in lines(checks):
            print(printable(line))
    return DONE if is_well(checks) else FAILED

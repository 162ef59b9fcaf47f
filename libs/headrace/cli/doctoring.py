"""`doctor`: whether this machine can be a good node, and what mends what is not well."""

from __future__ import annotations

import os
import subprocess
from argparse import ArgumentParser
from pathlib import Path

import msgspec

from headrace.cli.arguments import add_output
from headrace.cli.joining import AGENT, default_folder
from headrace.cli.output import show


def doctor_options(parser: ArgumentParser) -> None:
    """The arguments of `doctor`."""
    parser.add_argument("head", nargs="?", default="", metavar="URL", help="of a platform to join")
    parser.add_argument("--dir", default="", metavar="FOLDER", help="where the node is kept")
    add_output(parser)


def doctor(*, head: str, dir: str, output: str) -> int:  # noqa: A002
    """Look at driver, NVML, MIG mode, cgroups, clock, ports, disk, and the way to the platform."""
    folder = Path(dir).expanduser().absolute() if dir else default_folder()
    env = {**os.environ, "HEADRACE_NODE_DIR": str(folder)}
    form = "json" if output in ("json", "yaml") else "table"
    words = [*AGENT, "--doctor", form, *([head] if head else [])]
    if output != "yaml":
        return subprocess.run(words, env=env, check=False).returncode
    done = subprocess.run(words, env=env, check=False, stdout=subprocess.PIPE)
    show(msgspec.json.decode(done.stdout), output)
    return done.returncode

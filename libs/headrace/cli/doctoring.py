"""`doctor`: whether this machine can be a good node, and what mends what is not well."""

from __future__ import annotations

import os
import subprocess
from argparse import ArgumentParser
from pathlib import Path

from headrace.cli.joining import AGENT, default_folder


def doctor_options(parser: ArgumentParser) -> None:
    """The arguments of `doctor`."""
    parser.add_argument("head", nargs="?", default="", metavar="URL", help="of a platform to join")
    parser.add_argument("--dir", default="", metavar="FOLDER", help="where the node is kept")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")


def doctor(*, head: str, dir: str, output: str) -> int:  # noqa: A002
    """Look at driver, NVML, MIG mode, cgroups, clock, ports, disk, and the way to the platform."""
    folder = Path(dir).expanduser().absolute() if dir else default_folder()
    env = {**os.environ, "HEADRACE_NODE_DIR": str(folder)}
    words = [*AGENT, "--doctor", output, *([head] if head else [])]
    return subprocess.run(words, env=env, check=False).returncode

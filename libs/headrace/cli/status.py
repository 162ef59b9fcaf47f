"""`status`: of the platform on this machine, or of one elsewhere by its address."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser
from pathlib import Path

from headrace.cli.arguments import add_connection, add_output, add_watch


def status_options(parser: ArgumentParser) -> None:
    """The arguments of `status`. Only machines with Linux have a platform of their own."""
    if sys.platform == "linux":
        from headrace.cli.platform import data_dir_option

        data_dir_option(parser)
    parser.add_argument("--check", action="store_true", help="exit with 1 unless all is well")
    add_connection(parser)
    add_output(parser)
    add_watch(parser)


def status(
    data_dir: Path | None = None,
    *,
    check: bool,
    output: str,
    url: str,
    token: str,
    project: str,
) -> int:
    """Show every process of the platform on this machine; with `url`, or where there is none here, what
    the gateway knows of one elsewhere.
    """
    if data_dir is not None and not url and _is_here(data_dir):
        from headrace.cli.platform import local_status

        return local_status(data_dir, check=check, output=output)
    from headrace.cli.remote_status import remote_status

    return remote_status(url=url, token=token, project=project, check=check, output=output)


def _is_here(data_dir: Path) -> bool:
    """Whether the platform of this folder is meant: it is there, was named, or no other is known."""
    from headrace.client.config import contexts
    from headrace.embedded.default_folder import default_data_dir
    from headrace.embedded.layout import Layout

    if Layout(data_dir).exists() or data_dir != default_data_dir().absolute():
        return True
    return "HEADRACE_URL" not in os.environ and not contexts()[1]

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
        from headrace.cli.data_folder import data_dir_option

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
    if sys.platform == "linux" and not url and (folder := _here(data_dir)) is not None:
        from headrace.cli.platform import local_status

        return local_status(folder, check=check, output=output)
    from headrace.cli.remote_status import remote_status

    return remote_status(url=url, token=token, project=project, check=check, output=output)


def _here(named: Path | None) -> Path | None:
    """The folder of the platform on this machine that is meant; None where it is one elsewhere: none is
    here, none was named, and another is known.
    """
    from headrace.cli.data_folder import data_dir_of
    from headrace.client.config import contexts
    from headrace.embedded.layout import Layout

    folder = data_dir_of(named)
    if named is not None or Layout(folder).exists():
        return folder
    return None if "HEADRACE_URL" in os.environ or contexts()[1] else folder

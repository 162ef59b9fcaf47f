"""`--data-dir`: which platform of this machine a verb is about.

Rule: the folder that is named; else that of the context in force, so that `down` ends what `ps` asks;
else, where that one is not kept on this machine, the default.
"""

from __future__ import annotations

import os
from argparse import ArgumentParser
from pathlib import Path

from headrace.client.config import kept_in
from headrace.embedded.default_folder import default_data_dir, default_text
from headrace.embedded.layout import Layout


def data_dir_option(parser: ArgumentParser, about: str = "where everything is kept") -> None:
    """Which platform of this machine."""
    parser.add_argument(
        "--data-dir",
        type=lambda text: Path(text).expanduser().absolute(),
        metavar="FOLDER",
        help=f"{about} (at first that of the context in use if it is here, else {default_text()})",
    )


def data_dir_of(named: Path | None) -> Path:
    """The folder. Raises `ClientError` where contexts cannot be read."""
    if named is not None:
        return named
    kept = kept_in(os.environ.get("HEADRACE_URL", ""))
    if kept and Layout(Path(kept)).exists():
        return Path(kept)
    return default_data_dir().absolute()

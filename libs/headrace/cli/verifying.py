"""`verify`: the whole log read and proved, every decision derived again.

Rule: an operator's verb: it reads the database itself, with the operator's role, and trusts no
service.
"""

from __future__ import annotations

import asyncio
import os
import sys
from argparse import ArgumentParser
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from headrace.cli.arguments import add_output
from headrace.cli.data_folder import data_dir_of, data_dir_option
from headrace.cli.exits import DONE, FAILED, UNREACHABLE, report
from headrace.cli.output import show


def verify_options(parser: ArgumentParser) -> None:
    """The arguments of `verify`."""
    data_dir_option(parser, "the platform")
    parser.add_argument(
        "--noted",
        type=_noted,
        default=os.environ.get("HEADRACE_NOTED") or None,
        metavar="POSITION:HASH",
        help="what an earlier verify printed: the log must still have it ($HEADRACE_NOTED)",
    )
    add_output(parser)


def _noted(text: str) -> tuple[int, bytes]:
    """Raises `ValueError`, which argparse tells."""
    position, _, hash_ = text.partition(":")
    return int(position), bytes.fromhex(hash_)


def verify(*, data_dir: Path | None, noted: tuple[int, bytes] | None, output: str) -> int:
    """Check the chain, what is kept beside it, the invariants, and every decision byte for byte."""
    from headrace.embedded import EmbeddedError
    from headrace.store.interface import StoreError

    try:
        found = asyncio.run(_verified(_dsn(data_dir), noted, quiet=not sys.stderr.isatty()))
    except EmbeddedError as error:
        return report(f"headrace verify: {error}", FAILED)
    except (StoreError, OSError) as error:
        return report(f"headrace verify: the log cannot be read: {error}", UNREACHABLE)
    if output in {"json", "yaml"}:
        show(found, output)
    else:
        print(found)
    return DONE if found.passed else FAILED


async def _verified(dsn: str, noted: tuple[int, bytes] | None, *, quiet: bool) -> Any:
    from headrace.store.postgres import PostgresStore
    from headrace.verification import Noted
    from headrace.verification import verify as check

    def progress(position: int, head: int) -> None:
        if not quiet:
            print(f"\r{position} of {head}", end="", file=sys.stderr, flush=True)

    store = await PostgresStore.connect(dsn)
    try:
        before = Noted(position=noted[0], hash=noted[1]) if noted else None
        return await check(store, _deciders(), progress, before)
    finally:
        if not quiet:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
        await store.close()


def _deciders() -> dict[str, Any]:
    return {point.name: point.load() for point in entry_points(group="headrace.deciders")}


def _dsn(data_dir: Path | None) -> str:
    """The operator's login of the platform on this machine; without one, `HEADRACE_PG_DSN`."""
    from headrace.embedded.layout import Layout
    from headrace.embedded.platform import operator_dsn

    layout = Layout(data_dir_of(data_dir))
    given = os.environ.get("HEADRACE_PG_DSN", "")
    return given if given and data_dir is None and not layout.exists() else operator_dsn(layout)

"""The supervisor's process: one platform from its start to a signal.

Rule: whatever ends it, nothing is lost: on a signal it takes the platform down in order, and after
kill -9 its children go on until the next `headrace up` or `headrace down` finds them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from headrace.embedded import EmbeddedError, settings
from headrace.embedded.ending import end_everything
from headrace.embedded.files import read_json
from headrace.embedded.layout import Layout
from headrace.embedded.platform import Gone, NewToken, Platform
from headrace.embedded.units import python_command

ANNOUNCE = "--announce"

_LOG = logging.getLogger("headrace.up")


class Wish(msgspec.Struct):
    """How `headrace down` wants it done, read by the supervisor when its signal arrives."""

    keep_jobs: bool


def command(layout: Layout, *options: str) -> Sequence[str]:
    """The command line of the supervisor's process. `ANNOUNCE`: it says when it is up."""
    return python_command("headrace.cli.supervising", str(layout.data_dir), *options)


def wish_file(layout: Layout) -> Path:
    """Where `headrace down` leaves its `Wish`."""
    return layout.data_dir / "down.json"


def supervise(data_dir: Path, new_token: NewToken, on_ready: Callable[[str], None]) -> int:
    """Run the platform until SIGTERM, SIGINT or SIGHUP; the exit status.

    `new_token` makes a token that lets nodes join; `on_ready` gets the gateway's address once everything is ready.
    """
    logging.basicConfig(
        level=logging.INFO,
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s up %(message)s",
    )
    layout = Layout(data_dir)
    try:
        with layout.locked():
            return asyncio.run(
                _supervise(Platform(layout, settings.read(layout), new_token), layout, on_ready)
            )
    except EmbeddedError as error:
        _LOG.error("%s", error)
        return 1


async def _supervise(platform: Platform, layout: Layout, on_ready: Callable[[str], None]) -> int:
    wish_file(layout).unlink(missing_ok=True)
    told = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, told.set)
    running = asyncio.create_task(_run(platform, on_ready))
    waiting = asyncio.create_task(told.wait())
    await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
    status = 0
    if running.done() and (error := running.exception()):
        if not isinstance(error, EmbeddedError | OSError):
            raise error
        _LOG.error("%s", error)
        status = 1
        if isinstance(error, Gone):
            waiting.cancel()
            await platform.abandon()
            return status
    waiting.cancel()
    # A start that fails, or is refused, was no order to end what ran before it.
    kept = bool(status) or settings.read(layout).are_jobs_kept
    wish = read_json(wish_file(layout), Wish) or Wish(keep_jobs=kept)
    await platform.stop(keep_jobs=wish.keep_jobs)
    with contextlib.suppress(EmbeddedError, OSError):
        await running
    # What was just being started when the signal came runs only now.
    await asyncio.to_thread(end_everything, layout, keep_jobs=wish.keep_jobs, again=True)
    return status


async def _run(platform: Platform, on_ready: Callable[[str], None]) -> None:
    if await platform.start():
        _LOG.info("ready url=%s", platform.url)
        await asyncio.to_thread(on_ready, platform.url)
    await platform.watch()

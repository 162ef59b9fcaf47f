"""What a followed job waits for, said while it waits.

Rule: the gateway is asked only after a while, so that a job that starts at once costs nothing more,
and a reason is printed when it is another one, not when its numbers change. Nothing moves where
nobody watches: what is painted over is for terminals.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import time

from headrace.cli.exits import printable
from headrace.cli.output import columns, duration
from headrace.client.client import Client
from headrace.client.errors import ClientError

FIRST_S = 2.0  # a wait is no news before that
EVERY_S = 10.0  # between two looks at the reason
FRAME_S = 0.2  # between two paintings of the line that moves

_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_NUMBERS = re.compile(r"[0-9]+")
_OVER = frozenset(("running", "paused", "succeeded", "failed", "cancelled", "refused"))


class Waiting:
    """Says why one job waits, by a thread of its own; whoever prints besides it uses `say`."""

    def __init__(self, client: Client, job: str, *, is_said: bool) -> None:
        self._client, self._job, self._is_said = client, job, is_said
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._reason = ""
        self._is_painted = False
        can_move = os.environ.get("TERM") != "dumb"
        self._moves = can_move and sys.stdout.isatty() and sys.stderr.isatty()
        self._since_s = time.monotonic()

    @property
    def is_over(self) -> bool:
        """Whether it does not wait now."""
        return self._over.is_set()

    def begin(self) -> None:
        """It waits from now on."""
        self._over.set()
        self._over, self._since_s = threading.Event(), time.monotonic()
        if self._is_said:
            threading.Thread(target=self._run, args=(self._over,), daemon=True).start()

    def end(self) -> None:
        """It waits no more."""
        self._over.set()
        with self._lock:
            self._wipe()

    def say(self, line: str) -> None:
        """Print a line, in place of the one that moves."""
        with self._lock:
            self._wipe()
            print(line, flush=True)

    def _run(self, over: threading.Event) -> None:
        client = self._client.copy()
        ask_in_s = FIRST_S
        while not over.wait(min(ask_in_s, FRAME_S) if self._moves else ask_in_s):
            ask_in_s -= FRAME_S if self._moves else ask_in_s
            if ask_in_s <= 0:
                ask_in_s = EVERY_S
                self._ask(client, over)
            if self._moves:
                self._paint(over)
        client.close()

    def _ask(self, client: Client, over: threading.Event) -> None:
        try:
            found = client.why(self._job)
        except ClientError:
            return  # whoever follows the job's events says what is wrong
        reason = _NUMBERS.sub("", f"{found.rule} {found.text}")
        if found.rule in _OVER or reason == self._reason or over.is_set():
            return
        self._reason = reason
        self.say(printable(f"{self._job}  waits: {found.text}"))

    def _paint(self, over: threading.Event) -> None:
        waited_s = time.monotonic() - self._since_s
        frame = _FRAMES[int(waited_s / FRAME_S) % len(_FRAMES)]
        line = f"{frame} waiting {duration(int(waited_s) * 1_000_000)}  (Ctrl-C leaves it waiting)"
        with self._lock:
            if not over.is_set():
                self._is_painted = True
                print(f"\r{line[: columns() - 1]}\x1b[K", end="", file=sys.stderr, flush=True)

    def _wipe(self) -> None:
        if self._is_painted:
            self._is_painted = False
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

"""The journal on disk: one line of JSON per change, rewritten when most of it is history.

Rule: a torn last line is what a crash leaves and is cut off; anything else that cannot be read ends
the incarnation.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from headrace.node_agent.journal import Header, Journal, Line, Lineage

REWRITE_LINES = 8_192  # at least this many lines before the file is rewritten

_DECODER = msgspec.json.Decoder(Line)
_ENCODER = msgspec.json.Encoder()
_LOG = logging.getLogger("headrace.node_agent")


class FileJournal(Journal):
    """A journal that outlives the agent."""

    def __init__(self, header: Header, path: Path) -> None:
        super().__init__(header)
        self._path = path
        self._file = -1
        self._count = 0

    @classmethod
    def open(
        cls, path: Path, *, boot: str, granter: str, new_incarnation: Callable[[], str]
    ) -> FileJournal:
        """The journal in this file, continued; a new incarnation when the boot is another, or the
        file is missing or damaged. Raises `OSError` when the folder cannot be written.
        """
        found, is_whole = _read(path)
        if found is not None and is_whole and found.header.boot == boot:
            header = msgspec.structs.replace(found.header, granter=granter)
            journal = cls(header, path)
            journal._take_over(found)
        else:
            journal = cls(Header(incarnation=new_incarnation(), boot=boot, granter=granter), path)
            if found is not None:
                journal._continue(found)
        journal._rewrite()
        return journal

    def close(self) -> None:
        os.close(self._file)

    def _take_over(self, found: Journal) -> None:
        for line in found.lines():
            self.apply(line)
        if found.header.granter != self.header.granter:
            # Another platform has a log of its own, which counts from the start.
            self.taken, self.rebooted_at, self.lineage = (0, 0), 0, Lineage()

    def _keep(self, line: Line) -> None:
        self._count += 1
        try:
            if self._count > REWRITE_LINES and self._count > 4 * len(self._reports):
                self._rewrite()
            os.write(self._file, _ENCODER.encode(line) + b"\n")
        except OSError as error:
            self._count = REWRITE_LINES + 4 * len(self._reports)  # write all of it next time
            _LOG.error("journal not written path=%s error=%s", self._path, error.strerror)

    def _replace(self) -> None:
        try:
            self._rewrite()
        except OSError as error:
            self._count = REWRITE_LINES + 4 * len(self._reports)  # write all of it next time
            _LOG.error("journal not written path=%s error=%s", self._path, error.strerror)

    def _rewrite(self) -> None:
        new = self._path.with_suffix(".new")
        lines = [_ENCODER.encode(line) for line in self.lines()]
        file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        try:
            with os.fdopen(os.dup(file), "wb") as whole:
                whole.write(b"\n".join(lines) + b"\n")
            new.rename(self._path)
        except OSError:
            os.close(file)
            raise
        if self._file >= 0:
            os.close(self._file)
        self._file, self._count = file, len(lines)


def _read(path: Path) -> tuple[Journal | None, bool]:
    """What the file holds, as far as it can be read, and whether that is all of it."""
    try:
        *lines, torn = path.read_bytes().split(b"\n")
    except OSError:
        return None, False
    if torn:
        _LOG.warning("journal had a torn last line path=%s bytes=%d", path, len(torn))
    journal: Journal | None = None
    for number, raw in enumerate(lines):
        try:
            line = _DECODER.decode(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            _LOG.warning("journal is damaged path=%s line=%d", path, number + 1)
            return journal, False
        if line.header is not None:
            journal = Journal(line.header)
        elif journal is not None:
            journal.apply(line)
    return journal, journal is not None

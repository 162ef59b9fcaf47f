"""Keeps what workers leave behind: sent to the platform when they have ended, before that is told.

Rule: a job that is told to have succeeded has its outputs. What cannot be kept makes the end a
failure that says so. The working directory goes when nobody needs it any more.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import msgspec

from headrace.bundles.manifest import (
    FILES_MAX,
    BadManifest,
    Manifest,
    encode_manifest,
    manifest_of,
    name_of,
)
from headrace.bus.files import (
    PART_BYTES_MAX,
    PARTS_MAX,
    AskMissing,
    KeepTree,
    Missing,
    Put,
    PutPart,
)
from headrace.node_agent.folders import name_of as folder_of
from headrace.node_agent.folders import read_intent
from headrace.node_agent.machine import AttemptKey, End
from headrace.node_agent.supervision.beneath import Folder, Reader, remove
from headrace.node_agent.supervision.protocol import CHECKPOINT, INPUTS, OUTPUT, WORK
from headrace.node_agent.tasks import end_tasks
from headrace.node_agent.workplaces import Unprepared
from headrace.node_agent.workplaces.fetching import Files
from headrace.node_agent.workplaces.gathering import gather

CANCELLED = "stopped: cancelled"  # as shims have it
NOT_KEPT = 125  # Headrace's own failure, as `docker run` has it

_LOG = logging.getLogger("headrace.node_agent")


class Leavings:
    """What is being sent, and what was and is not told yet."""

    def __init__(self, files: Files, node_dir: Path) -> None:
        self._files, self._node_dir = files, node_dir
        self._tasks: dict[AttemptKey, asyncio.Task[End]] = {}
        self._clearing: set[asyncio.Task[None]] = set()

    def kept(self, key: AttemptKey, end: End, then: Callable[[], None]) -> End | None:
        """The end with what was kept; None while it is being sent, and `then` will be called."""
        task = self._tasks.get(key)
        if task is None:
            folder = self._folder_of(key)
            if folder is None:
                return end
            task = self._tasks[key] = asyncio.create_task(self._keep(key, folder, end))
            task.add_done_callback(lambda done: None if done.cancelled() else then())
        if not task.done():
            return None
        asyncio.get_running_loop().call_soon(self._told, key)  # when it is in the journal
        return task.result()

    async def close(self) -> None:
        """Leave; what was not sent is sent by the next agent."""
        await end_tasks([*self._tasks.values(), *self._clearing])

    def _told(self, key: AttemptKey) -> None:
        if self._tasks.pop(key, None) is not None:
            clearing = asyncio.create_task(
                asyncio.to_thread(_clear, self._node_dir / folder_of(key))
            )
            self._clearing.add(clearing)
            clearing.add_done_callback(self._clearing.discard)

    def _folder_of(self, key: AttemptKey) -> Path | None:
        """The attempt's folder, if anything of it is to be kept or removed."""
        try:
            folder = self._node_dir / folder_of(key)
        except ValueError:
            return None
        return folder if (folder / WORK).exists() else None

    async def _keep(self, key: AttemptKey, folder: Path, end: End) -> End:
        intent = read_intent(folder)
        paths = tuple(intent.outputs) if intent is not None else ()
        try:
            with _Left(folder) as left:
                kept = await asyncio.to_thread(left.gathered, paths)
                if kept is not None:
                    tree = await self._send(key, kept, left)
                    end = msgspec.structs.replace(
                        end,
                        outputs=tree,
                        outputs_files=len(kept.files),
                        outputs_bytes=kept.bytes,
                    )
                if not _is_last(end):
                    end = await self._with_checkpoint(key, end, left)
        except (BadManifest, Unprepared, OSError) as error:
            line = getattr(error, "strerror", None) or str(error)
            _LOG.warning("outputs not kept job=%s rank=%d: %s", key.job, key.rank, line)
            code = end.exit_code or NOT_KEPT
            message = f"{end.message}; " if end.message else ""
            message += f"outputs cannot be kept: {line}"
            end = msgspec.structs.replace(end, exit_code=code, message=message)
        return end

    async def _with_checkpoint(self, key: AttemptKey, end: End, left: _Left) -> End:
        """With what the next attempt goes on from. One that cannot be kept is said, and changes nothing
        of how this one ended.
        """
        try:
            saved = await asyncio.to_thread(left.checkpoint)
            tree = await self._send(key, saved, left) if saved is not None else ""
        except (BadManifest, Unprepared, OSError) as error:
            line = getattr(error, "strerror", None) or str(error)
            _LOG.warning("checkpoint not kept job=%s rank=%d: %s", key.job, key.rank, line)
            message = f"{end.message}; " if end.message else ""
            return msgspec.structs.replace(
                end, message=f"{message}checkpoint cannot be kept: {line}"
            )
        return msgspec.structs.replace(end, checkpoint=tree)

    async def _send(self, key: AttemptKey, manifest: Manifest, left: _Left) -> str:
        """The name of what the platform has now."""
        data = encode_manifest(manifest)
        digests = list(manifest.digests())
        for at in range(0, len(digests), PARTS_MAX):
            asked = AskMissing(job=key.job, digests=tuple(digests[at : at + PARTS_MAX]))
            for digest in (await self._files.ask("missing", asked, Missing)).digests:
                await self._put(key, digest, left.content(digest))
        for part in _parts_of(key, name_of(data), data):
            await self._files.ask("put", part, Put)
        await self._files.ask("keep", KeepTree(job=key.job, tree=name_of(data)), Put)
        return name_of(data)

    async def _put(self, key: AttemptKey, digest: str, content: int) -> None:
        with os.fdopen(content, "rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            offset = 0
            while True:
                data = await asyncio.to_thread(file.read, PART_BYTES_MAX)
                part = PutPart(job=key.job, digest=digest, size=size, offset=offset, data=data)
                await self._files.ask("put", part, Put)
                offset += len(data)
                if offset >= size or not data:
                    return


def _parts_of(key: AttemptKey, digest: str, data: bytes) -> Iterator[PutPart]:
    for offset in range(0, len(data), PART_BYTES_MAX):
        piece = data[offset : offset + PART_BYTES_MAX]
        yield PutPart(job=key.job, digest=digest, size=len(data), offset=offset, data=piece)


class _Left:
    """What one attempt left behind. From here on its account finds no way into its folders any more;
    another attempt of that account may still have them open. Raises `OSError`.
    """

    def __init__(self, folder: Path) -> None:
        self._attempt = Folder.at(folder)
        os.fchmod(self._attempt.descriptor, 0o700)
        about = self._attempt.about(WORK)
        self._reader = Reader(about.st_uid, about.st_gid)
        self._where: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._attempt.close()

    def gathered(self, paths: tuple[str, ...]) -> Manifest | None:
        """What is kept of it; None when it is nothing. Raises `BadManifest`, `OSError`."""
        listed, where = gather(self._attempt, WORK, paths, self._reader)
        with self._attempt.folder(OUTPUT) as output:
            names = output.names(FILES_MAX + 1)
        more, more_where = gather(self._attempt, OUTPUT, names, self._reader)
        self._where = more_where | where
        files = {file.path: file for file in (*more.files, *listed.files)}
        return manifest_of(files.values()) if files or paths else None

    def checkpoint(self) -> Manifest | None:
        """What it saved for the next attempt; None when it is nothing. Raises `BadManifest`,
        `OSError`.
        """
        if not self._attempt.has(CHECKPOINT):
            return None
        with self._attempt.folder(CHECKPOINT) as folder:
            names = folder.names(FILES_MAX + 1)
        saved, where = gather(self._attempt, CHECKPOINT, names, self._reader)
        self._where = self._where | where
        return saved if saved.files else None

    def content(self, digest: str) -> int:
        """A descriptor to read this content from, if nobody has changed it. Raises `OSError`."""
        return self._attempt.regular(self._where[digest], self._reader)


def _is_last(end: End) -> bool:
    """Whether no attempt follows this one."""
    is_done = end.reason == "exited" and not end.exit_code
    return is_done or end.message == CANCELLED


def _clear(folder: Path) -> None:
    """What only the worker needed."""
    for name in (WORK, OUTPUT, INPUTS, CHECKPOINT, "setups"):
        remove(folder / name)

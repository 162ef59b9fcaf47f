"""Fetches folders from the platform, content by content, and keeps them.

Rule: what is here already is not asked for, and what comes is compared with its name. Nobody
answering is not an answer: it is asked again until a limit, and then said so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from headrace.bundles.manifest import (
    BUNDLE_BYTES_MAX,
    OUTPUTS_BYTES_MAX,
    BadManifest,
    File,
    Manifest,
    below,
    manifest_of,
    name_of,
)
from headrace.bundles.objects import Damaged, Objects
from headrace.bundles.packing import HELD_BYTES_MAX
from headrace.bus import subjects
from headrace.bus.files import (
    ANSWER_S,
    PART_BYTES_MAX,
    PARTS_MAX,
    AskOutputs,
    GetParts,
    Outputs,
    Part,
    Parts,
    Put,
    SayDamaged,
    packed,
    unpacked,
)
from headrace.bus.interface import Bus, BusError
from headrace.node_agent.workplaces import Unprepared

SILENCE_S_MAX = 300.0  # of the platform, until a job is not kept waiting for its files any more
RETRY_S = 0.5
AT_ONCE = 4  # requests under way for one folder

A = TypeVar("A", bound=msgspec.Struct)


class Files:
    """Speaks with the platform about files, as one node."""

    def __init__(self, bus: Bus, node: str, *, silence_s_max: float = SILENCE_S_MAX) -> None:
        self._bus, self._node, self._silence_s_max = bus, node, silence_s_max

    async def ask(self, what: str, message: msgspec.Struct, kind: type[A]) -> A:
        """The answer to one request. Raises `Unprepared` when there is none, or none to be had."""
        subject = subjects.files_asked(self._node, what)
        now_s = asyncio.get_running_loop().time
        until_s = now_s() + self._silence_s_max
        while True:
            asked_s = now_s()
            try:
                reply = await self._bus.request(subject, packed(message), timeout_s=ANSWER_S)
                break
            except BusError:
                if now_s() > until_s:
                    rule = f"did not answer for {self._silence_s_max:.0f} s"
                    raise Unprepared(f"the platform {rule} when asked for files") from None
                await asyncio.sleep(max(0.0, RETRY_S - (now_s() - asked_s)))
        try:
            refused = unpacked(reply.data, Put).refused
            answer = unpacked(reply.data, kind)
        except msgspec.MsgspecError as error:
            raise Unprepared(f"the platform's answer is not understood: {error}") from None
        if refused:
            raise Unprepared(refused)
        return answer


class Fetched(NamedTuple):
    """A folder, and those of its contents that came just now, compared with their names."""

    manifest: Manifest
    held: dict[str, bytes]


class Fetcher:
    """Brings folders of one project's jobs into `objects`, several of one folder at once."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._fetching: dict[tuple[Path, str], asyncio.Lock] = {}

    async def tree(
        self, objects: Objects, job: str, tree: str, bytes_max: int = BUNDLE_BYTES_MAX
    ) -> Fetched:
        """The folder of this name, every content of which is here now. Raises `Unprepared`, and `OSError`
        where it cannot be kept.
        """
        lock = self._fetching.setdefault((objects.root, tree), asyncio.Lock())
        async with lock:
            known = await asyncio.to_thread(objects.tree, tree, bytes_max)
            if known is None:
                fetched = await self._fetched(objects, job, tree, bytes_max)
            else:
                fetched = Fetched(known, {})
        self._fetching.pop((objects.root, tree), None)
        return fetched

    async def outputs(self, objects: Objects, job: str, of: str) -> Manifest:
        """What the job `of` left behind, every content of which is here now: that of its one worker,
        or of several in folders by rank. Raises as `tree` does.
        """
        left = await self._files.ask("outputs", AskOutputs(job=job, of=of), Outputs)
        found: list[File] = []
        for rank, tree in left.trees:
            manifest, _ = await self.tree(objects, job, tree, OUTPUTS_BYTES_MAX)
            found += below(manifest, str(rank)) if len(left.trees) > 1 else manifest.files
        return manifest_of(found)

    async def _fetched(self, objects: Objects, job: str, tree: str, bytes_max: int) -> Fetched:
        data = await self._whole(job, tree)
        if name_of(data) != tree:
            raise Unprepared(f"what the platform keeps as folder {tree[:12]} is damaged")
        try:
            missing = await asyncio.to_thread(objects.put_tree, data, bytes_max)
            manifest = msgspec.json.decode(data, type=Manifest)
            held = await self._contents(objects, job, tree, manifest, missing)
            await asyncio.to_thread(objects.put_tree, data, bytes_max)
        except BadManifest as error:
            raise Unprepared(f"folder {tree[:12]} cannot be kept on this node: {error}") from None
        return Fetched(manifest, held)

    async def _whole(self, job: str, tree: str) -> bytes:
        """A manifest, whose size nobody knows before."""
        found = b""
        while True:
            part = Part(tree, len(found), PART_BYTES_MAX)
            (more,) = await self._parts(job, tree, (part,))
            found += more
            if len(more) < PART_BYTES_MAX:
                return found

    async def _contents(
        self, objects: Objects, job: str, tree: str, manifest: Manifest, missing: list[str]
    ) -> dict[str, bytes]:
        """Bring what is missing; the small ones of it, as far as they are held."""
        sizes = manifest.digests()
        arriving = _Arriving(objects, sizes)
        room = asyncio.Semaphore(AT_ONCE)

        async def bring(batch: list[Part]) -> None:
            async with room:
                data = await self._parts(job, tree, tuple(batch))
                await asyncio.to_thread(arriving.keep, batch, data)

        async def bring_large(digest: str) -> None:
            for offset in range(0, sizes[digest], PART_BYTES_MAX):
                size = min(PART_BYTES_MAX, sizes[digest] - offset)
                await bring([Part(digest, offset, size)])

        small = [digest for digest in missing if sizes[digest] <= PART_BYTES_MAX]
        large = [digest for digest in missing if sizes[digest] > PART_BYTES_MAX]
        works = [bring(batch) for batch in _batches(small, sizes)]
        works += [bring_large(digest) for digest in large]
        tasks = [asyncio.ensure_future(work) for work in works]
        try:
            await asyncio.gather(*tasks)
            await asyncio.to_thread(objects.put_all, arriving.held)
        except Damaged as error:
            said = SayDamaged(job=job, tree=tree, digest=error.digest)
            await self._files.ask("damaged", said, Put)  # so that it can be sent again
            raise Unprepared(f"a file came damaged from the platform: {error}") from None
        finally:
            for task in tasks:
                task.cancel()
        return arriving.held

    async def _parts(self, job: str, tree: str, parts: tuple[Part, ...]) -> tuple[bytes, ...]:
        answer = await self._files.ask("get", GetParts(job=job, parts=parts), Parts)
        if answer.missing:
            raise Unprepared(
                f"the platform does not keep folder {tree[:12]} any more; submit the job again"
            )
        return answer.parts


def _batches(digests: list[str], sizes: dict[str, int]) -> Iterator[list[Part]]:
    batch: list[Part] = []
    room = PART_BYTES_MAX
    for digest in digests:
        if batch and (sizes[digest] > room or len(batch) >= PARTS_MAX):
            yield batch
            batch, room = [], PART_BYTES_MAX
        batch.append(Part(digest, 0, sizes[digest]))
        room -= sizes[digest]
    if batch:
        yield batch


class _Arriving:
    """Contents on their way to be kept. Small ones stay in memory, for the copy that is laid of them
    at once, and are kept together when all have come.
    """

    def __init__(self, objects: Objects, sizes: dict[str, int]) -> None:
        self._objects, self._sizes = objects, sizes
        self._room = HELD_BYTES_MAX
        self.held: dict[str, bytes] = {}

    def keep(self, batch: list[Part], data: tuple[bytes, ...]) -> None:
        """Raises `Damaged`, `OSError`."""
        for part, content in zip(batch, data, strict=True):
            size = self._sizes[part.digest]
            if not len(content) == size <= self._room:
                self._objects.put_part(part.digest, size, part.offset, content)
            elif name_of(content) != part.digest:
                raise Damaged(f"what was received is not {part.digest}", part.digest)
            else:
                self.held[part.digest] = content
                self._room -= size

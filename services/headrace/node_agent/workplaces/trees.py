"""Folders on this node as workers get them: each a copy of its own, the next one made ahead.

    bundles/<project>/objects, trees    what was fetched (`headrace.bundles.objects`)
    bundles/<project>/spares/           one copy of each folder used lately, laid while nobody waits
    bundles/<project>/taken/            a copy on its way to the attempt that moves it away

Rule: a copy is made once and given away once. A link to what is kept would be quicker to lay, but
whoever writes into the file would write into everybody's.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from headrace.bundles.laying import NOTHING_HELD, Owner, lay
from headrace.bundles.manifest import Manifest
from headrace.bundles.objects import Objects
from headrace.bundles.thinning import forget_before, thin
from headrace.node_agent.supervision.beneath import remove
from headrace.node_agent.tasks import end_tasks
from headrace.node_agent.workplaces import repositories, setups
from headrace.node_agent.workplaces.fetching import Fetched

BYTES_MAX = 20_000_000_000  # of the contents kept for one project, and of its repositories
SPARES_MAX = 16  # of one project
SPARE_AFTER_S = 0.5  # when the worker that took the last one is well on its way
TAKEN_S_MAX = 600.0  # for an attempt to move its folder away
THIN_EVERY_S = 600.0

_LOG = logging.getLogger("headrace.node_agent")


class Trees:
    """The folders of all projects on one node."""

    def __init__(self, node_dir: Path, *, bytes_max: int = BYTES_MAX) -> None:
        self._root, self._bytes_max = node_dir / "bundles", bytes_max
        self._sparing: dict[Path, asyncio.Task[None]] = {}

    def of(self, project: str) -> Objects:
        """What is kept for one project."""
        return Objects(self._root / project)

    def projects(self) -> Iterator[tuple[str, Objects]]:
        """Every project that anything is kept for."""
        with contextlib.suppress(OSError):
            for name in sorted(os.listdir(self._root)):
                yield name, self.of(name)

    async def take(
        self, project: str, tree: str, fetched: Fetched, name: str, owner: Owner | None
    ) -> str:
        """A copy of the folder for the attempt of this name. Raises `Damaged`, `OSError`."""
        objects = self.of(project)
        spare = objects.root / "spares" / f"{tree}.{owner[0] if owner else 'own'}"
        taken = objects.root / "taken" / name
        sparing = self._sparing.get(spare)
        if sparing is not None:
            await asyncio.wait([sparing])
        if not _moved(spare, taken):
            await asyncio.to_thread(
                _lay_anew, objects, fetched.manifest, taken, owner, fetched.held
            )
        self._spare(objects, fetched.manifest, spare, owner)
        return str(taken)

    async def lay(self, project: str, manifest: Manifest, name: str, owner: Owner | None) -> str:
        """A copy of files that are kept here. Raises `Damaged`, `OSError`."""
        objects = self.of(project)
        taken = objects.root / "taken" / name
        await asyncio.to_thread(_lay_anew, objects, manifest, taken, owner)
        return str(taken)

    async def tend(self) -> None:
        """Keep within the caps, for ever."""
        while True:
            await asyncio.to_thread(self._tidy)
            await asyncio.sleep(THIN_EVERY_S)

    async def close(self) -> None:
        """Leave; what is half laid is laid anew."""
        await end_tasks(list(self._sparing.values()))

    def forget(self, project: str, kept: frozenset[str], erased_at_s: float) -> None:
        """Remove folders that are not `kept`, and whatever there was before the project was erased."""
        objects = self.of(project)
        for tree in frozenset(objects.trees()) - kept:
            objects.drop_tree(tree)
            for spare in (objects.root / "spares").glob(f"{tree}.*"):
                remove(spare)
        if erased_at_s:
            setups.tidy(objects.root / "setups", before_s=erased_at_s)
            for bare in _latest_first(objects.root / "repositories"):
                if bare.lstat().st_mtime < erased_at_s:
                    remove(bare)
            forget_before(objects, erased_at_s)

    def _spare(
        self, objects: Objects, manifest: Manifest, spare: Path, owner: Owner | None
    ) -> None:
        if spare not in self._sparing:
            task = asyncio.create_task(_lay_ahead(objects, manifest, spare, owner))
            self._sparing[spare] = task
            task.add_done_callback(lambda _: self._sparing.pop(spare, None))

    def _tidy(self) -> None:
        for _, objects in self.projects():
            thin(objects, self._bytes_max)
            setups.tidy(objects.root / "setups")
            with contextlib.suppress(OSError):  # one that is being fetched into changes under it
                repositories.tidy(objects.root / "repositories", self._bytes_max)
            here = frozenset(objects.trees())
            spares = _latest_first(objects.root / "spares")
            for number, spare in enumerate(spares):
                if number >= SPARES_MAX or spare.name.partition(".")[0] not in here:
                    remove(spare)
            too_old_s = time.time() - TAKEN_S_MAX
            for taken in _latest_first(objects.root / "taken"):
                if taken.lstat().st_mtime < too_old_s:
                    remove(taken)


async def _lay_ahead(
    objects: Objects, manifest: Manifest, spare: Path, owner: Owner | None
) -> None:
    await asyncio.sleep(SPARE_AFTER_S)
    try:
        await asyncio.to_thread(_lay_anew, objects, manifest, spare, owner)
    except OSError as error:
        _LOG.warning("no spare copy of a folder: %s", error.strerror or error)


def _lay_anew(
    objects: Objects,
    manifest: Manifest,
    folder: Path,
    owner: Owner | None,
    held: Mapping[str, bytes] = NOTHING_HELD,
) -> None:
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = folder.with_name(f".{folder.name}")
    for left in (new, folder):
        if left.exists():
            remove(left)
    try:
        lay(objects, manifest, new, owner, held)
    except OSError:
        remove(new)
        raise
    new.rename(folder)


def _moved(spare: Path, taken: Path) -> bool:
    taken.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        os.utime(spare)
        spare.rename(taken)
    except OSError:
        return False
    return True


def _latest_first(folder: Path) -> list[Path]:
    found: list[tuple[float, Path]] = []
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            with contextlib.suppress(OSError):
                found.append((path.lstat().st_mtime, path))
    return [path for _, path in sorted(found, reverse=True)]

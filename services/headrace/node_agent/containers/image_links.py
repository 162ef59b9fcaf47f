"""Whether links of an image lead to where the engine makes mount points.

Rule: the engine's runtime follows what links an image has, as root: onto the container's `/dev/null`, say,
in whose place it then gives the host's to the job's account, with the streams that it takes for the job's
own. So nothing is mounted through a link of the image, which is looked at before it is started.
Source: `fixStdioPermissions` of runc, which passes over what is the container's `/dev/null`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping

from headrace.node_agent.containers.engine import Away, Engine, Gone

DEVICES = "/dev"  # which runtimes mount themselves
KNOWN_MAX = 10_000  # paths of images: about 2 MB

ABSENT, LINK, OTHER = "absent", "link", "other"


class ImageLinks:
    """What this node's engine has of images, as far as it was asked. `labels` are what its containers
    carry: one that is left of a look is removed with those that are nobody's.
    """

    def __init__(self, engine: Engine, labels: Mapping[str, str]) -> None:
        self._engine, self._labels = engine, dict(labels)
        self._known: dict[tuple[str, str], str] = {}

    async def first(self, container: str) -> str:
        """The first link of its image on the way to a mount point of this container; "" if there is none.
        Raises `Away`, `Denied`.
        """
        made = await self._engine.made(container)
        ways = list(dict.fromkeys(way for path in (*made.targets, DEVICES) for way in _ways(path)))
        found = {way: self._known.get((made.image, way), "") for way in ways}
        if not all(_judged(found, ways)):
            found = await self._look(f"{container}.look", made.image, ways)
            if len(self._known) + len(found) > KNOWN_MAX:
                self._known.clear()
            self._known.update({(made.image, way): what for way, what in found.items()})
        return next((way for way in ways if found.get(way) == LINK), "")

    async def _look(self, name: str, image: str, ways: Iterable[str]) -> dict[str, str]:
        """What is at these paths in a container that is made of the image, and of nothing else."""
        config = {
            "Image": image,
            "Entrypoint": ["-"],
            "HostConfig": {"NetworkMode": "none"},
            "Labels": self._labels,
        }
        found: dict[str, str] = {}
        await self._engine.create(name, config)
        try:
            for way in ways:
                above = found.get(os.path.dirname(way), OTHER)
                found[way] = ABSENT if above == ABSENT else await self._kind(name, way)
                if found[way] == LINK:
                    break
            with contextlib.suppress(Gone):
                await self._engine.state(name)
                return found
            raise Away("what was looked at was taken away")  # then nothing was there to be found
        finally:
            await self._engine.remove(name)

    async def _kind(self, name: str, path: str) -> str:
        with contextlib.suppress(Gone):
            return LINK if await self._engine.is_link(name, path) else OTHER
        return ABSENT


def _ways(path: str) -> list[str]:
    """The path and what is above it, from the top on."""
    names = [name for name in path.split("/") if name]
    return ["/" + "/".join(names[:end]) for end in range(1, len(names) + 1)]


def _judged(found: Mapping[str, str], ways: Iterable[str]) -> Iterable[bool]:
    """Of each path, whether it is known what is there: nothing, where nothing is above."""
    absent: set[str] = set()
    for way in ways:
        if found[way] == ABSENT or os.path.dirname(way) in absent:
            absent.add(way)
        yield bool(found[way]) or way in absent

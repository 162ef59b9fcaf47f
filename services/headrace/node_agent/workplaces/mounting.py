"""What a worker finds beside its code: volumes of the node, and copies of what jobs left behind.

Rule: a path below the working directory is a link or a copy, which needs no privilege; what a link
leads to is read-only where the attempt has mounts of its own, if it is to be. An absolute one is mounted where only the worker's processes see it, which takes root; without root it must be
where the volume is on the node anyway. A container is shown both by its engine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from headrace.events.asked import Mount
from headrace.node_agent.supervision.beneath import Folder
from headrace.node_agent.supervision.protocol import INPUTS, WORK
from headrace.node_agent.workplaces import Unprepared

_INPUTS = f"{{}}/{INPUTS}"  # of the attempt, whose folder takes the place of {}


def volume_at(
    mount: Mount, path: str, *, contained: bool, hidden: Sequence[str] = ()
) -> tuple[str, str, bool] | None:
    """How the volume at `path` of this node is mounted for a worker; None when it is there already
    (or linked). A container is shown it by its engine. What is `hidden` is in no volume, and no volume in
    it. Raises `Unprepared`.
    """
    if not os.path.isdir(path):
        raise Unprepared(f"volume {mount.volume} is not on this node: there is no folder {path}")
    try:
        os.listdir(path)
    except OSError as error:
        why = error.strerror
        raise Unprepared(f"volume {mount.volume} cannot be read at {path}: {why}") from None
    real = os.path.realpath(path)
    for own in map(os.path.realpath, hidden):
        if os.path.commonpath((own, real)) in (own, real):
            rule = f"{own} is the node's own, which no job sees"
            raise Unprepared(f"volume {mount.volume} cannot be at {path}: {rule}")
    if contained:
        below = "" if mount.path.startswith("/") else f"{{}}/{WORK}/"
        return path, f"{below}{mount.path}", mount.read_only
    if not mount.path.startswith("/"):
        return None
    if os.geteuid() == 0:
        return path, mount.path, mount.read_only
    if os.path.realpath(mount.path) == os.path.realpath(path):
        return None
    rule = f"only an agent that is root can show it at {mount.path}"
    instead = f"ask for {mount.volume}:{path}, or {mount.volume}:{os.path.basename(path)}"
    raise Unprepared(f"volume {mount.volume}: {rule}; {instead}")


def check_nested(mounts: Sequence[tuple[str, str, bool]]) -> None:
    """Whether the mount points of a container that lie in its volumes are there: its engine would make them as
    root, through whatever link a job put there. Raises `Unprepared`.
    """
    for source, outer, _ in mounts:
        for _, inner, _ in mounts:
            below = os.path.relpath(inner, outer)
            if inner == outer or below.startswith(".."):
                continue
            try:
                with Folder.at(source) as volume:
                    volume.folder(below).close()
            except OSError as error:
                lack = f"there is no folder {below} in {source}: {error.strerror}"
                raise Unprepared(f"nothing can be mounted at {inner}: {lack}") from None


def input_at(mount: Mount, number: int) -> tuple[str, str, bool] | None:
    """The same of a job's outputs, which lie in the attempt's folder. Raises `Unprepared`."""
    if not mount.path.startswith("/"):
        return None
    if os.geteuid() == 0:
        return f"{_INPUTS}/{number}", mount.path, True
    rule = f"only an agent that is root can show it at {mount.path}"
    raise Unprepared(f"job/{mount.job}: {rule}; ask for job/{mount.job}:{mount.path.strip('/')}")


def variable_of(volume: str) -> str:
    """The variable that says where a volume is."""
    return f"HEADRACE_VOLUME_{re.sub('[^A-Z0-9]', '_', volume.upper())}"

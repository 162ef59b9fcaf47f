"""What a node must have besides room: the volumes of a job within reach, and its interpreter; and
what it had better have: the volumes near.

Rule: the scheduling core knows all of it as labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from headrace.events.asked import Gang
from headrace.events.nodes import NodeJoined
from headrace.events.volumes import Volume

Labels: TypeAlias = tuple[tuple[str, str], ...]

PYTHON = "python:"  # before a version: no label that somebody gives has a colon


def reached_by(asked: Gang, volumes: Mapping[str, Volume]) -> Labels:
    """The labels of nodes that reach all of its volumes, and have its interpreter."""
    known = [volumes[name] for name in asked.volumes if name in volumes]
    python = [(f"{PYTHON}{asked.python}", "yes")] if asked.python else []
    return tuple(dict.fromkeys([*((v.label, v.value) for v in known if v.label), *python]))


def near_by(asked: Gang, volumes: Mapping[str, Volume]) -> tuple[tuple[str, ...], Labels]:
    """The volumes that attract it, and the labels of nodes that are near to them. Where two exclude
    each other the one that the job names first decides.
    """
    near: dict[str, str] = {}
    names = []
    for name in asked.volumes:
        volume = volumes.get(name)
        if volume is None or not volume.near_label:
            continue
        if near.setdefault(volume.near_label, volume.near_value) == volume.near_value:
            names.append(name)
    return tuple(dict.fromkeys(names)), tuple(near.items())


def labels_of(node: NodeJoined) -> dict[str, str]:
    """What a node's interpreters are, as labels."""
    return {f"{PYTHON}{version}": "yes" for version in node.pythons}

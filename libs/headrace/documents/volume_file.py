"""Documents of administrators: volumes, which are folders that some nodes reach."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from headrace.documents.names import name_of
from headrace.documents.pool_file import NodesWith, label_of
from headrace.documents.refusing import refuse
from headrace.documents.shape import Part, Parts, shaped
from headrace.events.volumes import Volume

VOLUME = "volume"
PATH_LENGTH_MAX = 512
OF_THE_MACHINE = ("/dev", "/proc", "/run", "/sys", "/var/run")
"""Device nodes, the kernel's own files, the sockets of services and container engines: who has one of
these has the machine, whatever its modes say to accounts. Nothing in there is a volume.
"""


class VolumeDocument(Part):
    """A volume: where it is on the nodes that reach it, which are those with a label, or all. Jobs
    go to nodes that are `near`, such as those with a copy on a disk of their own, if there is room.
    """

    parts: ClassVar[Parts] = {"nodes": NodesWith, "near": NodesWith}

    type: str = ""
    name: str = ""
    path: str = ""
    nodes: NodesWith = msgspec.field(default_factory=NodesWith)
    near: NodesWith = msgspec.field(default_factory=NodesWith)


def volume_of(document: object) -> Volume:
    """The volume that a document describes. Raises `DocumentError`."""
    asked = shaped(document, VolumeDocument)
    path = asked.path
    parts = path.split("/")
    if not path.startswith("/") or len(path) > PATH_LENGTH_MAX or not path.isprintable():
        refuse("path", "must be an absolute path", value=path or None, instead="/mnt/datasets")
    if ".." in parts or not any(parts):
        refuse("path", "must name a folder", value=path, instead="/mnt/datasets")
    plain = "/" + "/".join(part for part in parts if part not in ("", "."))
    if own := next((own for own in OF_THE_MACHINE if f"{plain}/".startswith(f"{own}/")), ""):
        rule = f"what is in {own} is the machine's own, not data: devices, its kernel, its services' sockets"
        refuse("path", rule, value=path, instead="a folder of data, mounted below /mnt or /srv")
    label, value = label_of(asked.nodes.label) if asked.nodes.label else ("", "")
    near_label, near_value = label_of(asked.near.label, "near") if asked.near.label else ("", "")
    if near_label and near_label == label and near_value != value:
        refuse("near.label", "no node that reaches it has this", value=asked.near.label)
    return Volume(
        volume=name_of("name", asked.name),
        path=path,
        label=label,
        value=value,
        near_label=near_label,
        near_value=near_value,
    )

"""Volumes: folders outside Headrace that some nodes reach, and jobs ask for by name."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from headrace.events.base import Decision, Fact, Refusal


class Volume(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A folder at `path` of every node whose label `label` is `value`; without a label, of all.
    Nodes whose label `near_label` is `near_value` are near to it.
    """

    volume: str
    path: str
    label: str = ""
    value: str = ""
    near_label: str = ""
    near_value: str = ""


class VolumeApplyRequested(
    Fact, frozen=True, kw_only=True, omit_defaults=True, tag="volume.apply_requested.v1"
):
    """An administrator applied a volume's document."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "volume/{name}"
    name: str
    volume: Volume
    user: str = ""
    document: str = ""  # as it was applied, in JSON


class VolumeConfigured(
    Decision, frozen=True, kw_only=True, omit_defaults=True, tag="volume.configured.v1"
):
    """The volume stands as given from now on. `change` is created, updated or unchanged."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "volume/{name}"
    name: str
    volume: Volume
    change: str


class VolumeRefused(
    Decision, frozen=True, kw_only=True, omit_defaults=True, tag="volume.refused.v1"
):
    """The volume cannot be, and why."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "volume/{name}"
    name: str
    refusal: Refusal


class VolumeDeleteRequested(
    Fact, frozen=True, kw_only=True, omit_defaults=True, tag="volume.delete_requested.v1"
):
    """An administrator wants a volume to be no more."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "volume/{name}"
    name: str
    user: str = ""


class VolumeDeleted(
    Decision, frozen=True, kw_only=True, omit_defaults=True, tag="volume.deleted.v1"
):
    """Jobs can name it no more: none that had not ended did. The folder itself is left alone."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "volume/{name}"
    name: str

"""What is asked about volumes."""

from __future__ import annotations

from headrace.documents import read_volume
from headrace.events import Fact, Refusal
from headrace.events.volumes import Volume, VolumeApplyRequested, VolumeDeleteRequested
from headrace.runtime.asking import Named, receives, receives_document
from headrace.runtime.service import Request

OWNED = "volumes belong to the whole fleet"


@receives_document(read_volume, OWNED)
def apply_volume(volume: Volume, request: Request) -> Fact | Refusal:
    """`volume.apply`: its document."""
    return VolumeApplyRequested(
        name=volume.volume, volume=volume, user=request.actor, document=request.body.decode()
    )


@receives(Named, OWNED)
def delete_volume(asked: Named, request: Request) -> Fact | Refusal:
    """`volume.delete`: whether it can go is decided."""
    return VolumeDeleteRequested(name=asked.name, user=request.actor)

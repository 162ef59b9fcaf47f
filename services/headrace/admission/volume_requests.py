"""What is asked about volumes."""

from __future__ import annotations

from headrace.documents import read_json, read_volume
from headrace.events import Fact, Refusal
from headrace.events.volumes import VolumeApplyRequested
from headrace.runtime.service import Request, Runtime


async def apply_volume(request: Request, runtime: Runtime) -> Fact | Refusal:
    """`volume.apply`: its document."""
    del runtime
    document = read_json(request.body)
    volume = document if isinstance(document, Refusal) else read_volume(document)
    if isinstance(volume, Refusal):
        return volume
    return VolumeApplyRequested(name=volume.volume, volume=volume, user=request.actor)

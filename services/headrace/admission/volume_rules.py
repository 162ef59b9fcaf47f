"""Volumes: which there are, and which a job may name."""

from __future__ import annotations

from headrace.admission.hearing import Hearing
from headrace.documents.wording import counted, some
from headrace.events import Decision, Refusal
from headrace.events.jobs import JobRequested
from headrace.events.volumes import (
    Volume,
    VolumeApplyRequested,
    VolumeConfigured,
    VolumeDeleted,
    VolumeDeleteRequested,
    VolumeRefused,
)

VOLUMES_MAX = 1_000
JOBS_SHOWN_MAX = 5
NO_VOLUME = "there is none yet: headrace apply -f declares one"


def apply_volume(hearing: Hearing, position: int, event: VolumeApplyRequested) -> Decision:
    """It stands as given from here on."""
    del position
    before = hearing.volume(event.name)
    if before is None and len(hearing.state.volumes) >= VOLUMES_MAX:
        refusal = Refusal(field="name", value=event.name, rule=f"there are {VOLUMES_MAX} already")
        return VolumeRefused(name=event.name, refusal=refusal)
    change = "unchanged" if before == event.volume else "updated" if before else "created"
    return VolumeConfigured(name=event.name, volume=event.volume, change=change)


def delete_volume(hearing: Hearing, position: int, event: VolumeDeleteRequested) -> Decision:
    """It is no more, unless a job that has not ended has it."""
    del position
    refusal, name = None, event.name
    if hearing.volume(name) is None:
        refusal = _unknown(hearing, "volume", name)
    elif jobs := hearing.jobs_with(name):
        has = "has" if len(jobs) == 1 else "have"
        rule = f"{counted(len(jobs), 'job')} with it {has} not ended: {some(jobs, JOBS_SHOWN_MAX)}"
        refusal = Refusal(field="volume", value=name, rule=rule, instead="cancel them or wait")
    if refusal is not None:
        return VolumeRefused(name=name, refusal=refusal)
    return VolumeDeleted(name=name)


def unknown_volume(hearing: Hearing, event: JobRequested) -> Refusal | None:
    """A refusal for a volume that nobody declared, or several that no node can reach together."""
    labels: dict[str, Volume] = {}
    for name in event.gang.volumes:
        volume = hearing.volume(name)
        if volume is None:
            return _unknown(hearing, "volumes", name)
        other = labels.setdefault(volume.label, volume) if volume.label else volume
        if other.value != volume.value:
            rule = f"no node reaches it and {other.volume} too: their labels exclude each other"
            return Refusal(field="volumes", value=name, rule=rule)
    return None


def _unknown(hearing: Hearing, field: str, name: str) -> Refusal:
    instead = "" if hearing.state.volumes else NO_VOLUME
    return Refusal(
        field=field, value=name, rule="no such volume", instead=instead, unknown="volume"
    )

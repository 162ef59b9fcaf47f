"""Volumes: which there are, and which a job may name."""

from __future__ import annotations

from headrace.admission.hearing import Hearing
from headrace.documents.nearest import nearest
from headrace.events import Decision, Refusal
from headrace.events.jobs import JobRequested
from headrace.events.volumes import (
    Volume,
    VolumeApplyRequested,
    VolumeConfigured,
    VolumeRefused,
)

VOLUMES_MAX = 1_000
KNOWN_SHOWN_MAX = 10


def apply_volume(hearing: Hearing, position: int, event: VolumeApplyRequested) -> Decision:
    """It stands as given from here on."""
    del position
    before = hearing.volume(event.name)
    if before is None and len(hearing.state.volumes) >= VOLUMES_MAX:
        refusal = Refusal(field="name", value=event.name, rule=f"there are {VOLUMES_MAX} already")
        return VolumeRefused(name=event.name, refusal=refusal)
    change = "unchanged" if before == event.volume else "updated" if before else "created"
    return VolumeConfigured(name=event.name, volume=event.volume, change=change)


def unknown_volume(hearing: Hearing, event: JobRequested) -> Refusal | None:
    """A refusal for a volume that nobody declared, or several that no node can reach together."""
    labels: dict[str, Volume] = {}
    for name in event.gang.volumes:
        volume = hearing.volume(name)
        if volume is None:
            known = sorted(hearing.state.volumes)
            near = nearest(name, known)
            instead = f"did you mean {near}?" if near else _some(known)
            return Refusal(field="volumes", value=name, rule="no such volume", instead=instead)
        other = labels.setdefault(volume.label, volume) if volume.label else volume
        if other.value != volume.value:
            rule = f"no node reaches it and {other.volume} too: their labels exclude each other"
            return Refusal(field="volumes", value=name, rule=rule)
    return None


def _some(known: list[str]) -> str:
    if not known:
        return "there is none yet: headrace apply -f declares one"
    more = f" and {len(known) - KNOWN_SHOWN_MAX} more" if known[KNOWN_SHOWN_MAX:] else ""
    return f"volumes: {', '.join(known[:KNOWN_SHOWN_MAX])}{more}"

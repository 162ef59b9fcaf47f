"""How the projection's pools, volumes, secrets and publishers follow the log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.client.inventory_model import PublisherRow, SecretRow, TemplateRow
from headrace.events import Entry, Event
from headrace.events.access import ProjectErased, PublisherCreated, PublisherDeleted, SecretSet
from headrace.events.pools import PoolConfigured, PoolDeleted
from headrace.events.templates import TemplateConfigured, TemplateDeleted
from headrace.events.volumes import VolumeConfigured, VolumeDeleted
from headrace.gateway.projection import Projection


def pool(projection: Projection, _entry: Entry, event: PoolConfigured) -> None:
    """It stands as given."""
    projection.pools[event.name] = event.pool


def pool_deleted(projection: Projection, _entry: Entry, event: PoolDeleted) -> None:
    """It is no more."""
    projection.pools.pop(event.name, None)


def volume(projection: Projection, _entry: Entry, event: VolumeConfigured) -> None:
    """It stands as given."""
    projection.volumes[event.name] = event.volume


def volume_deleted(projection: Projection, _entry: Entry, event: VolumeDeleted) -> None:
    """It is no more."""
    projection.volumes.pop(event.name, None)


def template(projection: Projection, entry: Entry, event: TemplateConfigured) -> None:
    """Job files can name it; it stands where it was changed last."""
    if event.change == "unchanged":
        return
    projection.templates[event.project, event.name] = TemplateRow(
        name=event.name,
        project=event.project,
        description=event.template.description,
        job=event.template.fields(),
        position=entry.position,
        applied_at_us=entry.recorded_at_us,
    )


def template_deleted(projection: Projection, _entry: Entry, event: TemplateDeleted) -> None:
    """It is no more."""
    projection.templates.pop((event.project, event.name), None)


def secret(projection: Projection, entry: Entry, event: SecretSet) -> None:
    """Jobs get this version of it."""
    projection.secrets[event.project, event.name] = SecretRow(
        name=event.name,
        project=event.project,
        version=event.version,
        set_at_us=entry.recorded_at_us,
    )


def publisher(projection: Projection, entry: Entry, event: PublisherCreated) -> None:
    """The key may publish, until then."""
    known = projection.publishers.get((event.project, event.name))
    is_renewed = known is not None and known.public_key == event.public_key
    projection.publishers[event.project, event.name] = PublisherRow(
        name=event.name,
        project=event.project,
        public_key=event.public_key,
        created_at_us=known.created_at_us if known and is_renewed else entry.recorded_at_us,
        expires_at_us=event.expires_at_us,
        durable=event.durable_since_us > 0,
    )


def publisher_deleted(projection: Projection, _entry: Entry, event: PublisherDeleted) -> None:
    """The bus refuses its key."""
    projection.publishers.pop((event.project, event.name), None)


def erased(projection: Projection, entry: Entry, event: ProjectErased) -> None:
    """The project's files and secrets are gone."""
    projection.erased_at_us[event.project] = entry.recorded_at_us
    for name in [name for name in projection.secrets if name[0] == event.project]:
        del projection.secrets[name]


FOLDS: dict[type[Event], Callable[[Projection, Entry, Any], None]] = {
    PoolConfigured: pool,
    PoolDeleted: pool_deleted,
    VolumeConfigured: volume,
    VolumeDeleted: volume_deleted,
    TemplateConfigured: template,
    TemplateDeleted: template_deleted,
    SecretSet: secret,
    PublisherCreated: publisher,
    PublisherDeleted: publisher_deleted,
    ProjectErased: erased,
}

"""What the gateway answers about pools, volumes, secrets and publishers."""

from __future__ import annotations

from typing import Any

import msgspec


class PoolRow(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A pool: the nodes whose label `label` is `value`, and how many they are now. `prices` are
    millionths of the `currency` for one GPU and hour, by model.
    """

    name: str
    label: str
    value: str
    nodes: int = 0
    placement: str = "binpack"
    topology: list[str] = []
    prices: dict[str, int] = {}
    currency: str = ""
    max_duration_us: int = 0


class VolumeRow(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A volume: a folder at `path` of the nodes whose label `label` is `value` (without: of all),
    and how many they are now. Those whose label `near_label` is `near_value` are near.
    """

    name: str
    path: str
    label: str = ""
    value: str = ""
    nodes: int = 0
    near_label: str = ""
    near_value: str = ""


class TemplateRow(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A template: fields of a job file (`job`) that a job file of its project (empty: of any) takes
    over by naming it. It stands at this `position` of the log.
    """

    name: str
    project: str = ""
    description: str = ""
    job: dict[str, Any] = {}
    position: int = 0
    applied_at_us: int = 0


class SecretRow(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A secret that jobs may name. Its value is nowhere to be read."""

    name: str
    project: str
    version: str = ""
    set_at_us: int = 0


class PublisherRow(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A pipeline's place on the bus: the public NKey that publishes the project's jobs."""

    name: str
    project: str
    public_key: str = ""
    created_at_us: int = 0
    expires_at_us: int = 0  # its login
    durable: bool = False  # hears what happened while it was away

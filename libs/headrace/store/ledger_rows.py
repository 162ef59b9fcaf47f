"""The rows of the tables beside the events, as `Store.ledger` gives them."""

from __future__ import annotations

import msgspec


class ServiceRow(msgspec.Struct, frozen=True, kw_only=True):
    """A service's term, and the position of its own last append (0: none)."""

    service: str
    epoch: int
    last_position: int


class GuardRow(msgspec.Struct, frozen=True, kw_only=True):
    """A counter of the log: what is booked, below which limit, and the last append's change."""

    key: str
    used: int
    limit: int
    delta: int


class RequestRow(msgspec.Struct, frozen=True, kw_only=True):
    """A request key that is taken, and the event that recorded the request."""

    project: str
    source: str
    key: str
    position: int
    recorded_at_us: int


class ProjectKeyRow(msgspec.Struct, frozen=True, kw_only=True):
    """A project's key without what it was sealed to; `sha256` is that's."""

    project: str
    id: str
    sha256: bytes


class SnapshotRow(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot without its data, which is large; `sha256` is the data's."""

    service: str
    position: int
    hash: bytes
    decision_version: str
    sha256: bytes

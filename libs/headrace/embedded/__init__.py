"""The platform on one machine: Postgres, NATS and every service, started and kept alive by us."""

from __future__ import annotations


class EmbeddedError(Exception):
    """The embedded platform could not do what was asked; the message is one line for a person."""

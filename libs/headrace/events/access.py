"""Secrets, publishers and erasure: who may send, what is kept apart, what is forgotten.

Rule: no value of a secret is ever in an event; the vault keeps it, sealed.
"""

from __future__ import annotations

from typing import ClassVar

from headrace.events.base import Decision, Fact, Refusal


class SecretSetRequested(
    Fact, frozen=True, kw_only=True, omit_defaults=True, tag="secret.set_requested.v1"
):
    """A value for the secret `name` was put into the vault, as `version`."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "secret/{project}/{name}"
    project: str
    name: str
    version: str
    user: str = ""


class SecretSet(Decision, frozen=True, kw_only=True, omit_defaults=True, tag="secret.set.v1"):
    """Jobs of the project that name this secret get that version of it."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "secret/{project}/{name}"
    project: str
    name: str
    version: str


class SecretRefused(
    Decision, frozen=True, kw_only=True, omit_defaults=True, tag="secret.refused.v1"
):
    """The secret cannot be set, and why."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "secret/{project}/{name}"
    project: str
    name: str
    refusal: Refusal


class PublisherRequested(
    Fact, frozen=True, kw_only=True, omit_defaults=True, tag="publisher.requested.v1"
):
    """A pipeline asked for a place on the bus: its public NKey, of which it proved to hold the private
    half, and the project it works for; or, when it `renews`, for a later end of the one that it has.
    A `durable` one also hears what happened while it was away.
    """

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "publisher/{project}/{name}"
    project: str
    name: str
    public_key: str
    user: str = ""
    renews: bool = False
    durable: bool = False


class PublisherCreated(
    Decision, frozen=True, kw_only=True, omit_defaults=True, tag="publisher.created.v1"
):
    """The key may publish the project's requests and read the project's outcomes, until then (0: for
    ever). Those since `durable_since_us` (0: those while it listens) it hears however long it was away.
    """

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "publisher/{project}/{name}"
    project: str
    name: str
    public_key: str
    expires_at_us: int = 0
    durable_since_us: int = 0


class PublisherRefused(
    Decision, frozen=True, kw_only=True, omit_defaults=True, tag="publisher.refused.v1"
):
    """The publisher was not created, and why."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "publisher/{project}/{name}"
    project: str
    name: str
    refusal: Refusal


class PublisherDeleteRequested(
    Fact, frozen=True, kw_only=True, omit_defaults=True, tag="publisher.delete_requested.v1"
):
    """Somebody wants a pipeline to have no place on the bus any more."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "publisher/{project}/{name}"
    project: str
    name: str
    user: str = ""


class PublisherDeleted(
    Decision, frozen=True, kw_only=True, omit_defaults=True, tag="publisher.deleted.v1"
):
    """The bus refuses the key from now on, and another may have the name."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "publisher/{project}/{name}"
    project: str
    name: str
    public_key: str


class ProjectEraseRequested(
    Fact, frozen=True, kw_only=True, omit_defaults=True, tag="project.erase_requested.v1"
):
    """Somebody asked that what this project's jobs ran can never be read again."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "project/{project}"
    project: str
    user: str = ""


class ProjectErased(
    Decision, frozen=True, kw_only=True, omit_defaults=True, tag="project.erased.v1"
):
    """The project's keys up to this position are dropped; the log's chain stays as it is."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "project/{project}"
    project: str


class ProjectKeysDropped(
    Fact, frozen=True, kw_only=True, omit_defaults=True, tag="project.keys_dropped.v1"
):
    """The keys and secrets that the project had when `project.erased` was decided, at position
    `erased_at`, are gone from the vault. Keys made from here on are new ones.
    """

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "project/{project}"
    project: str
    erased_at: int


class ProjectEraseRefused(
    Decision, frozen=True, kw_only=True, omit_defaults=True, tag="project.erase_refused.v1"
):
    """The project cannot be erased now, and why."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "project/{project}"
    project: str
    refusal: Refusal

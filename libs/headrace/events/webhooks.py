"""Webhooks: addresses outside that are told what happens to a project's jobs.

Rule: a webhook is a place in the log. It is told in order and nothing is skipped; how far it has
come is a fact, so that whoever leads next goes on from there.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from headrace.events.base import Decision, Fact, Refusal


class Webhook(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who is told of what. `types` are event types or their beginnings, such as `job.finished`;
    `private` allows addresses that are not on the public internet.
    """

    url: str
    types: tuple[str, ...]
    private: bool = False


class WebhookApplyRequested(
    Fact, frozen=True, kw_only=True, omit_defaults=True, tag="webhook.apply_requested.v1"
):
    """Somebody wants the address to be told. `secret` is what would sign a new one's messages,
    sealed under the project's key `secret_key`.
    """

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "webhook/{project}/{name}"
    name: str
    project: str
    webhook: Webhook
    secret: bytes
    secret_key: str
    user: str = ""
    document: str = ""  # as it was applied, in JSON


class WebhookConfigured(
    Decision, frozen=True, kw_only=True, omit_defaults=True, tag="webhook.configured.v1"
):
    """It is told from here on; one that was there goes on from where it was, with the secret it had.
    `change` is created, updated, unchanged or resumed.
    """

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "webhook/{project}/{name}"
    name: str
    project: str
    webhook: Webhook
    secret: bytes
    secret_key: str
    change: str


class WebhookRefused(
    Decision, frozen=True, kw_only=True, omit_defaults=True, tag="webhook.refused.v1"
):
    """The webhook cannot be, and why."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "webhook/{project}/{name}"
    name: str
    project: str
    refusal: Refusal


class WebhookDeleteRequested(
    Fact, frozen=True, kw_only=True, omit_defaults=True, tag="webhook.delete_requested.v1"
):
    """Somebody wants the address to be told no more."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "webhook/{project}/{name}"
    name: str
    project: str
    user: str = ""


class WebhookDeleted(
    Decision, frozen=True, kw_only=True, omit_defaults=True, tag="webhook.deleted.v1"
):
    """It is told no more."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "webhook/{project}/{name}"
    name: str
    project: str


class WebhookReached(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="webhook.reached.v1"):
    """Everything up to the position `reached` was told and taken."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "webhook/{project}/{name}"
    name: str
    project: str
    reached: int


class WebhookFailing(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="webhook.failing.v1"):
    """The event at `at` was not taken in several tries, and is tried again. `reason` is the last."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "webhook/{project}/{name}"
    name: str
    project: str
    at: int
    reason: str


class WebhookStopped(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="webhook.stopped.v1"):
    """It failed for too long, or its address is gone for good: it waits to be applied again, and
    goes on then from where it was.
    """

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "webhook/{project}/{name}"
    name: str
    project: str
    at: int
    reason: str

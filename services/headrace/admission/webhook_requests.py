"""What is asked about webhooks, and the secret that whoever made one is answered with.

Rule: the secret is drawn here and sealed at once; it is shown to whoever asked for the webhook, and
forgotten with the project.
"""

from __future__ import annotations

import base64
import os
from typing import Any

from headrace.admission.access_rules import being_erased
from headrace.admission.hearing import Hearing
from headrace.documents import read_webhook
from headrace.events import Fact, Refusal
from headrace.events.webhooks import (
    WebhookApplyRequested,
    WebhookConfigured,
    WebhookDeleteRequested,
)
from headrace.runtime.asking import Named, document, receives
from headrace.runtime.service import Request, Runtime
from headrace.vault.project_keys import ProjectKeys
from headrace.vault.sealing import open_sealed, seal

SECRET_BYTES = 32
PREFIX = "whsec_"  # as the Standard Webhooks specification writes secrets


async def apply_webhook(request: Request, runtime: Runtime, keys: ProjectKeys) -> Fact | Refusal:
    """`webhook.apply`: its document."""
    asked = document(request.body, read_webhook)
    if isinstance(asked, Refusal):
        return asked
    if asked.project != request.project:
        rule = f"this door is for project {request.project}"
        return Refusal(field="project", value=asked.project, rule=rule)
    refusal = being_erased(Hearing(runtime.state), asked.project)
    if refusal is not None:
        return refusal
    key_id, key = await keys.current(asked.project)
    return WebhookApplyRequested(
        name=asked.name,
        project=asked.project,
        webhook=asked.webhook,
        secret=seal(key, os.urandom(SECRET_BYTES), context(asked.project, asked.name)),
        secret_key=key_id,
        user=request.actor,
        document=request.body.decode(),
    )


@receives(Named)
def delete_webhook(asked: Named, request: Request) -> Fact | Refusal:
    """`webhook.delete`: `{"name"}`."""
    return WebhookDeleteRequested(name=asked.name, project=request.project, user=request.actor)


async def answer_of(event: WebhookConfigured, keys: ProjectKeys) -> dict[str, Any]:
    """What became of it, and what its messages are signed with."""
    secret = await secret_of(event.project, event.name, event.secret, event.secret_key, keys)
    shown = PREFIX + base64.b64encode(secret).decode() if secret else ""
    return {"change": event.change, "secret": shown}


async def secret_of(
    project: str, name: str, sealed: bytes, key_id: str, keys: ProjectKeys
) -> bytes | None:
    """The secret; None once the project's keys were dropped. Raises `StoreError`."""
    key = await keys.by_id(key_id)
    return None if key is None else open_sealed(key, sealed, context(project, name))


def context(project: str, name: str) -> bytes:
    """What a secret is sealed for."""
    return f"webhook:{project}/{name}".encode()

"""Webhooks: which may be, and what becomes of one that is applied again.

Rule: applying never loses a place in the log nor a secret that somebody checks signatures with.
"""

from __future__ import annotations

from headrace.admission.access_rules import unknown_project
from headrace.admission.hearing import Hearing
from headrace.admission.state import Hook
from headrace.events import Decision, Refusal
from headrace.events.webhooks import (
    WebhookApplyRequested,
    WebhookConfigured,
    WebhookDeleted,
    WebhookDeleteRequested,
    WebhookRefused,
)


def apply_webhook(hearing: Hearing, position: int, event: WebhookApplyRequested) -> Decision:
    """It is told from here on, or goes on from where it was."""
    del position
    project, name = event.project, event.name
    before = hearing.hook(project, name)
    refusal = unknown_project(hearing.state, project)
    if refusal is None and before is None:
        refusal = _room(hearing, project, name)
    if refusal is not None:
        return WebhookRefused(project=project, name=name, refusal=refusal)
    kept = before or Hook(webhook=event.webhook, secret=event.secret, secret_key=event.secret_key)
    return WebhookConfigured(
        project=project,
        name=name,
        webhook=event.webhook,
        secret=kept.secret,
        secret_key=kept.secret_key,
        change=_change(before, event),
    )


def delete_webhook(hearing: Hearing, position: int, event: WebhookDeleteRequested) -> Decision:
    """It is told no more."""
    del position
    project, name = event.project, event.name
    if hearing.hook(project, name) is None:
        refusal = Refusal(
            field="webhook", value=name, rule="does not exist", unknown="webhook",
            instead="" if hearing.state.hooks.get(project) else "the project has none",
        )  # fmt: skip
        return WebhookRefused(project=project, name=name, refusal=refusal)
    return WebhookDeleted(project=project, name=name)


def _room(hearing: Hearing, project: str, name: str) -> Refusal | None:
    """Each webhook reads along with the log, so there are so many of a project, and in all."""
    state = hearing.state
    for setting, has, whose in (
        ("webhooks_per_project_max", hearing.hooks_of(project), f"project {project}"),
        ("webhooks_max", hearing.hooks, "the platform"),
    ):
        if has >= state.setting(setting):
            rule = f"{whose} may have at most {state.setting(setting)} ({state.set_by(setting)})"
            instead = "delete one that nobody needs"
            return Refusal(field="webhook", value=name, rule=rule, instead=instead)
    return None


def _change(before: Hook | None, event: WebhookApplyRequested) -> str:
    if before is None:
        return "created"
    if before.stopped:
        return "resumed"
    return "unchanged" if before.webhook == event.webhook else "updated"

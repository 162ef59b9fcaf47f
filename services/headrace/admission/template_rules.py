"""Templates: which may be, and when one is no more.

Rule: a template is judged as a document when it arrives; here only whose it is and how many there
are. Whoever used one has its job, so that it can always go.
"""

from __future__ import annotations

from headrace.admission.access_rules import unknown_project
from headrace.admission.hearing import Hearing
from headrace.events import Decision, Refusal
from headrace.events.templates import (
    TemplateApplyRequested,
    TemplateConfigured,
    TemplateDeleted,
    TemplateDeleteRequested,
    TemplateRefused,
)

TEMPLATES_MAX = 1_000  # of one project, and of everybody


def apply_template(hearing: Hearing, position: int, event: TemplateApplyRequested) -> Decision:
    """It stands as given from here on."""
    del position
    project, name = event.project, event.name
    before = hearing.template(project, name)
    refusal = unknown_project(hearing.state, project) if project else None
    known = hearing.state.templates.get(project, {})
    if refusal is None and before is None and len(known) >= TEMPLATES_MAX:
        rule = f"there are {TEMPLATES_MAX} already"
        refusal = Refusal(field="template", value=name, rule=rule)
    if refusal is not None:
        return TemplateRefused(name=name, project=project, refusal=refusal)
    change = "unchanged" if before == event.template else "updated" if before else "created"
    return TemplateConfigured(name=name, project=project, template=event.template, change=change)


def delete_template(hearing: Hearing, position: int, event: TemplateDeleteRequested) -> Decision:
    """Job files can name it no more."""
    del position
    project, name = event.project, event.name
    if hearing.template(project, name) is not None:
        return TemplateDeleted(name=name, project=project)
    others = hearing.state.templates.get("", {})
    rule = "no such template" + (f" of project {project}" if project else " that is everybody's")
    instead = ""
    if project and name in others:
        instead = "it is everybody's: leave out --project"
    elif not project and (has := _who_has(hearing, name)):
        instead = f"project {has} has one: --project {has}"
    refusal = Refusal(field="template", value=name, rule=rule, instead=instead, unknown="template")
    return TemplateRefused(name=name, project=project, refusal=refusal)


def _who_has(hearing: Hearing, name: str) -> str:
    owners = (project for project, known in hearing.state.templates.items() if name in known)
    return min(owners, default="")

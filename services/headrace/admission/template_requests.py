"""What is asked about templates, and the job files that name one.

Rule: a job file is laid over its template when it arrives, and the request that is recorded is of
the two together. A project's own template comes before everybody's of the same name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from headrace.admission.state import Kept, State
from headrace.bus.subjects import FLEET
from headrace.documents import read_json, read_template
from headrace.documents.refusing import shown
from headrace.documents.template_file import TEMPLATE, laid, with_origin
from headrace.events import Fact, Refusal
from headrace.events.templates import (
    Template,
    TemplateApplyRequested,
    TemplateDeleteRequested,
)
from headrace.runtime.asking import Named, receives, receives_document
from headrace.runtime.service import Receive, Request

NO_TEMPLATE = "there is none yet: headrace apply -f makes one"


class Asked(NamedTuple):
    """A job file with what its template says (`fields`); `own` is what it says itself."""

    fields: object
    own: Mapping[str, Any] = {}
    template: str = ""
    at: int = 0
    from_template: tuple[str, ...] = ()

    def told(self, refusal: Refusal) -> Refusal:
        """The refusal with where its field was said."""
        if not self.template:
            return refusal
        return with_origin(refusal, self.template, self.from_template, self.own)


def job_file(request: Request, state: State) -> Asked | Refusal:
    """The job file in the request's body, over the template that it names."""
    fields = read_json(request.body)
    if isinstance(fields, Refusal):
        return fields
    name = fields.get(TEMPLATE) if isinstance(fields, Mapping) else None
    if not isinstance(fields, Mapping) or not name or not isinstance(name, str):
        return Asked(fields)
    kept = _known(state, request.project, name)
    if kept is None:
        instead = "" if state.templates else NO_TEMPLATE
        return Refusal(
            field="template", value=shown(name), rule="no such template", instead=instead,
            unknown="template",
        )  # fmt: skip
    merged, from_template = laid(kept.template.fields(), fields)
    merged.setdefault("name", name)
    return Asked(merged, fields, name, kept.position, from_template)


@receives_document(read_template)
def apply_template(template: Template, request: Request) -> Fact | Refusal:
    """`template.apply`: its document, through the door of whose it is."""
    if (template.project or FLEET) != request.project:
        rule = f"this door is for project {request.project}"
        return Refusal(field="project", value=template.project, rule=rule)
    return TemplateApplyRequested(
        name=template.name,
        project=template.project,
        template=template,
        user=request.actor,
        document=request.body.decode(),
    )


@receives(Named)
def delete_template(asked: Named, request: Request) -> Fact | Refusal:
    """`template.delete`: `{"name"}`, through the door of whose it is."""
    project = "" if request.project == FLEET else request.project
    return TemplateDeleteRequested(name=asked.name, project=project, user=request.actor)


def _known(state: State, project: str, name: str) -> Kept | None:
    return state.templates.get(project, {}).get(name) or state.templates.get("", {}).get(name)


TEMPLATE_RECEIVERS: dict[str, Receive] = {
    "template.apply": apply_template,
    "template.delete": delete_template,
}

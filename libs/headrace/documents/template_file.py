"""Templates: documents that hold fields of job files, and how a job file is laid over one.

Rule: what the job file says itself wins. Mappings are merged one level deep (`env`, `resources`),
everything else is taken whole from one of the two. The result is a job file like any other, and who
wrote which of its fields stays known, so that a refusal can say where to look.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn

import msgspec

from headrace.documents.job_file import JobFile
from headrace.documents.names import name_of
from headrace.documents.plan import plan
from headrace.documents.refusing import DocumentError, refuse
from headrace.documents.shape import Part, shaped
from headrace.documents.workdir import BUNDLE
from headrace.events import Refusal
from headrace.events.templates import Template

TEMPLATE = "template"
DESCRIPTION_MAX = 200
NOT_IN_ONE = {  # fields of a job file, and why a template has none of them
    "template": "a template names no other",
    "project": "the project is that of whoever uses it",
    "allow_plain_secret": "a template stands in the log in clear",
}


class TemplateDocument(Part):
    """A template: its name, whose it is (left out: everybody's), and fields of a job file."""

    type: str = ""
    name: str = ""
    project: str = ""
    description: str = ""
    job: dict[str, Any] = {}


class Laid(NamedTuple):
    """A job file over a template: `fields` of the job, and which of them (`resources.gpus`) came
    `from_template`.
    """

    fields: dict[str, Any]
    from_template: tuple[str, ...]


def template_of(document: object) -> Template:
    """The template that a document describes. Raises `DocumentError`."""
    asked = shaped(document, TemplateDocument)
    name = name_of("name", asked.name)
    if len(asked.description) > DESCRIPTION_MAX or not asked.description.isprintable():
        refuse("description", f"is one line of at most {DESCRIPTION_MAX} characters")
    fields = _said(asked.job)
    if not fields:
        refuse("job", "must be given", instead="job: {nodes: 2, resources: {gpus: 8}}")
    for field, rule in NOT_IN_ONE.items():
        if field in fields:
            refuse(f"job.{field}", rule, value=_scalar(fields[field]), instead="leave it out")
    _check(fields)
    return Template(
        name=name,
        project=name_of("project", asked.project) if asked.project else "",
        description=asked.description,
        job=msgspec.json.encode(fields).decode(),
    )


def laid(template: Mapping[str, Any], job: Mapping[str, Any]) -> Laid:
    """The fields of a job file over those of the template that it names."""
    own = {name: value for name, value in _said(job).items() if name != TEMPLATE}
    fields, origins = {**template, **own}, list[str]()
    for name, below in template.items():
        mine = own.get(name)
        if mine is None:
            origins.append(name)
        elif isinstance(below, Mapping) and isinstance(mine, Mapping):
            mine = _said(mine)
            fields[name] = {**below, **mine}
            origins += [f"{name}.{key}" for key in below if key not in mine]
    return Laid(fields, tuple(origins))


def with_origin(
    refusal: Refusal, template: str, from_template: tuple[str, ...], own: Mapping[str, Any] = {}
) -> Refusal:
    """The refusal with where its field was said: in the template or in the job file, if in either."""
    path = refusal.field
    while path and path not in from_template:
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    said = f"template {template}" if path else ""
    if not said and refusal.field.partition(".")[0].partition("[")[0] in own:
        said = "the job file"
    rule = f"{refusal.rule} (in {said})" if said else refusal.rule
    return msgspec.structs.replace(refusal, rule=rule)


def _said(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None}


def _check(fields: dict[str, Any]) -> None:
    """Refuse what no job file could say. What a job does is judged with the job: here it does
    nothing.
    """
    try:
        job = shaped(fields, JobFile)
    except DocumentError as error:
        _refuse_below(error.refusal)
    if job.workdir.startswith(BUNDLE):
        refuse("job.workdir", "a folder travels with a job, not with a template")
    harmless = msgspec.structs.replace(job, setup="", name=job.name or TEMPLATE)
    if not job.roles and not job.app:
        harmless.command = ["true"]
    if isinstance(planned := plan(harmless), Refusal):
        _refuse_below(planned)


def _refuse_below(refusal: Refusal) -> NoReturn:
    field = "job" if refusal.field == "document" else f"job.{refusal.field}"
    raise DocumentError(msgspec.structs.replace(refusal, field=field))


def _scalar(value: object) -> object:
    return value if isinstance(value, str | int) else None

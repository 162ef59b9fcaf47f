"""Templates: what many job files would say alike, kept under one name.

Rule: a template is laid under a job file when that arrives; from then on the job has all of it, and
what becomes of the template is no matter to it.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from headrace.events.base import Decision, Fact, Refusal


class Template(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What it says: `job` has fields of a job file, as JSON, in the order in which they stand there.
    Without a `project` it is everybody's.
    """

    name: str
    job: str
    project: str = ""
    description: str = ""

    def fields(self) -> dict[str, Any]:
        """The fields of the job file."""
        fields: dict[str, Any] = msgspec.json.decode(self.job)
        return fields


class TemplateApplyRequested(
    Fact, frozen=True, kw_only=True, omit_defaults=True, tag="template.apply_requested.v1"
):
    """Somebody applied a template's document."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "template/{project}/{name}"
    name: str
    template: Template
    project: str = ""
    user: str = ""
    document: str = ""  # as it was applied, in JSON


class TemplateConfigured(
    Decision, frozen=True, kw_only=True, omit_defaults=True, tag="template.configured.v1"
):
    """Jobs can name it from now on. `change` is created, updated or unchanged."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "template/{project}/{name}"
    name: str
    template: Template
    change: str
    project: str = ""


class TemplateRefused(
    Decision, frozen=True, kw_only=True, omit_defaults=True, tag="template.refused.v1"
):
    """The template cannot be, or is not there, and why."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "template/{project}/{name}"
    name: str
    refusal: Refusal
    project: str = ""


class TemplateDeleteRequested(
    Fact, frozen=True, kw_only=True, omit_defaults=True, tag="template.delete_requested.v1"
):
    """Somebody wants a template to be no more."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "template/{project}/{name}"
    name: str
    project: str = ""
    user: str = ""


class TemplateDeleted(
    Decision, frozen=True, kw_only=True, omit_defaults=True, tag="template.deleted.v1"
):
    """Job files can name it no more. Jobs that came of it are as they were."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "template/{project}/{name}"
    name: str
    project: str = ""

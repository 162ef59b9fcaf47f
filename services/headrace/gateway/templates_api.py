"""`/v1/templates`: which there are, and what one says. They are made and deleted as documents."""

from __future__ import annotations

from collections.abc import Iterator

from litestar import get
from litestar.params import FromPath, FromQuery
from litestar.response import Response

from headrace.client.inventory_model import TemplateRow
from headrace.documents.wording import meant
from headrace.gateway.caller import By, Caller, may
from headrace.gateway.errors import NotFound
from headrace.gateway.gateway import Gate, Gateway
from headrace.gateway.listing import Paged, listed


@get("/templates", summary="Templates of job files", opt=may("read", "template"))
async def list_templates(
    gateway: Gate, by: By, page: Paged, project: FromQuery[str] = ""
) -> Response[list[TemplateRow]]:
    """In order of name: everybody's, and those of projects one may see; with `project` those that
    its job files can name.
    """
    by.check_seen(project)
    return listed(_seen(gateway, by, project), TemplateRow, page, lambda r: (r.name, r.project))


@get("/templates/{name:str}", summary="One template", opt=may("read", "template"))
async def describe_template(
    gateway: Gate, by: By, name: FromPath[str], project: FromQuery[str] = ""
) -> TemplateRow:
    """The one that a job file of `project` means by this name: its own before everybody's."""
    seen = sorted(_seen(gateway, by, project), key=lambda row: (not row.project, row.project))
    found = next((row for row in seen if row.name == name), None)
    if found is None:
        instead = meant(name, "templates", sorted({row.name for row in seen}))
        raise NotFound(f"no template {name} is known; {instead}")
    return found


def _seen(gateway: Gateway, by: Caller, project: str) -> Iterator[TemplateRow]:
    for row in gateway.projection.templates.values():
        if row.project in ("", project or row.project) and (
            not row.project or by.may_here(row.project)
        ):
            yield row

"""`/v1/documents`: what administrators apply, and delete.

Rule: who may apply a document may delete it. Every kind of document is one row of `KINDS`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
from litestar import Request, delete, get, put
from litestar.params import FromPath, FromQuery
from litestar.response import Response
from litestar.status_codes import HTTP_200_OK

from headrace.access.allowed import Scope
from headrace.access.names import home_of, service_of
from headrace.access.table import ROLES
from headrace.bus.subjects import FLEET
from headrace.client.model import Answer
from headrace.documents.wording import meant
from headrace.events.people import Grant
from headrace.gateway.answering import response_of
from headrace.gateway.caller import By, Caller, may
from headrace.gateway.errors import BadRequest, NotFound
from headrace.gateway.gateway import Gate, Gateway
from headrace.gateway.jobs_api import Key, Trace


class Kind(NamedTuple):
    """The noun of a kind's requests, that of the table of access, and the stream of its events. One that
    `has_project` may be a project's, else it is the fleet's.
    """

    asked: str
    judged: str
    stream: str
    has_project: bool = False


SCHEDULING = "scheduling"  # there is one, without a name
KINDS = {
    "department": Kind("queue", "department", "queue/{name}"),
    "project": Kind("queue", "project", "queue/{name}"),
    "pool": Kind("pool", "pool", "pool/{name}"),
    "volume": Kind("volume", "pool", "volume/{name}"),
    "template": Kind("template", "template", "template/{project}/{name}", has_project=True),
    "webhook": Kind("webhook", "webhook", "webhook/{project}/{name}", has_project=True),
    SCHEDULING: Kind("scheduling", "pool", "scheduling"),
}
NAMED = [kind for kind in KINDS if kind != SCHEDULING]


@put(
    "/documents",
    summary="Create or change a department, project, pool, volume, template, webhook, or how turns"
    " are taken",
    opt=may("apply", "document"),
)
async def apply_document(
    gateway: Gate, by: By, request: Request[Any, Any, Any], key: Key = "", trace: Trace = ""
) -> Response[Answer]:
    """The body is one document as JSON. `change` tells what became of it."""
    body = await request.body()
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest("body", "", f"not a document in JSON: {error}") from error
    if not isinstance(document, dict):
        raise BadRequest("body", "", "a document is a JSON object")
    kind = KINDS.get(str(document.get("type")), KINDS["project"])  # whose owner refuses any other
    of = str(document.get("project") or "") if kind.has_project else ""
    _check_applied(gateway, by, document, kind)
    answer = await by.ask(f"{kind.asked}.apply", of or FLEET, body, key=key, traceparent=trace)
    return response_of(await gateway.visible(answer))


@get(
    "/documents/{kind:str}/{name:str}",
    summary="A document that is in force, as it was applied",
    opt=may("apply", "document"),
)
async def read_document(
    *,
    gateway: Gate,
    by: By,
    kind: FromPath[str],
    name: FromPath[str],
    project: FromQuery[str] = "",
) -> dict[str, Any]:
    """Applied again it changes nothing. Who may apply it may read it; `project` says whose template or
    webhook it is.
    """
    found = _kind(kind, NAMED)
    of = project if found.has_project else ""
    where = name if found.asked == "queue" and name in gateway.directory.parents else of
    by.check(where, verb="apply", noun=found.judged)
    document = await gateway.document(found.stream.format(name=name, project=of))
    if document is None or document.get("type") != kind:
        whose = f" in project {of}" if of else ""
        why = "none was applied, or it was deleted"
        raise NotFound(f"no document of {kind} {name} is in force{whose}: {why}")
    return document


@get(
    f"/documents/{SCHEDULING}",
    summary="The document of how turns are taken, as it was applied",
    opt=may("apply", "pool"),
)
async def read_scheduling(gateway: Gate, by: By) -> dict[str, Any]:
    """None is in force while turns are taken as the platform has it."""
    by.check()
    document = await gateway.document(KINDS[SCHEDULING].stream)
    if document is None:
        raise NotFound(f"no document of {SCHEDULING} is in force")
    return document


@delete(
    "/documents/{kind:str}/{name:str}",
    summary="Delete a department, project, pool, volume, template or webhook",
    status_code=HTTP_200_OK,
    opt=may("apply", "document"),
)
async def delete_document(
    *,
    gateway: Gate,
    by: By,
    kind: FromPath[str],
    name: FromPath[str],
    project: FromQuery[str] = "",
    key: Key = "",
) -> Response[Answer]:
    """`project` says whose template or webhook it is. What is still in use is refused. What jobs did
    stays in the log, and so does what was used.
    """
    found = _kind(kind, NAMED)
    of = project if found.has_project else ""
    where = name if found.asked == "queue" and name in gateway.directory.parents else of
    by.check(where, verb="apply", noun=found.judged)
    body = {"name": name, "kind": kind} if found.asked == "queue" else {"name": name}
    answer = await by.ask(f"{found.asked}.delete", of or FLEET, body, key=key)
    return response_of(await gateway.visible(answer))


@delete(
    f"/documents/{SCHEDULING}",
    summary="Take turns as the platform has it again",
    status_code=HTTP_200_OK,
    opt=may("apply", "pool"),
)
async def delete_scheduling(gateway: Gate, by: By, key: Key = "") -> Response[Answer]:
    """Whatever administrators chose of it is in force no more."""
    by.check()
    return response_of(await gateway.visible(await by.ask("scheduling.delete", FLEET, {}, key=key)))


def _kind(kind: str, known: list[str]) -> Kind:
    if kind not in known:
        raise BadRequest("kind", kind, "is not a kind of document", meant(kind, "kinds", known))
    return KINDS[kind]


def _check_applied(gateway: Gateway, by: Caller, document: dict[str, Any], kind: Kind) -> None:
    """Raise `Denied` unless they may apply such a document to what is there under its name, and
    below the department that it names; and may give every role that it gives.
    """
    if kind.has_project:
        by.check(str(document.get("project") or ""), verb="apply", noun=kind.judged)
        if document.get("private"):  # it may point at what only machines of the platform reach
            by.check(verb="private", noun="webhook")
        return
    if kind.asked != "queue" or document.get("type") not in KINDS:
        by.check(verb="apply", noun="pool")
        return
    name, above = (str(document.get(field) or "") for field in ("name", "department"))
    if name in gateway.directory.parents:
        by.check(name, verb="apply", noun=kind.judged)
    scope = Scope((name, *(gateway.scope(above).path if above else ())))
    by.check(scope, verb="apply", noun=kind.judged)
    _check_members(gateway, by, document.get("members"), scope)


def _check_members(gateway: Gateway, by: Caller, members: object, scope: Scope) -> None:
    """Raise `Denied` unless they may give every role that the document gives, and take every one that
    it gave before; `BadRequest` for a service of elsewhere that does not exist: whoever made it
    would have the role.
    """
    entries = (
        [entry for entry in members if isinstance(entry, dict)] if isinstance(members, list) else []
    )
    name, *_ = scope.path
    before = {
        grant.role for queues in gateway.directory.listed.values() for grant in queues.get(name, ())
    }
    for role in ROLES:  # any other is refused by who reads the document
        if role in before or any(entry.get("role") == role for entry in entries):
            by.check_giving(Grant(role=role, scope=name), scope)
    for entry in entries:
        service = service_of("", str(entry["service"])) if "service" in entry else ""
        is_there = gateway.directory.account(service) is not None
        if service and not is_there and home_of(service) not in scope.path[:1]:
            raise BadRequest(
                "members",
                str(entry["service"]),
                "is no service",
                "PROJECT/NAME (headrace user list)",
            )

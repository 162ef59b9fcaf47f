"""Nodes, projects, secrets, publishers, erasure, status."""

from __future__ import annotations

import base64
from importlib.metadata import version
from typing import Annotated, Any

import msgspec
from litestar import Request, delete, get, post, put
from litestar.params import FromPath, JSONBody, QueryParameter
from litestar.response import Response
from litestar.status_codes import HTTP_200_OK

from headrace import vault
from headrace.bus.subjects import FLEET
from headrace.client.model import Answer, BusStatus, NodeRow, Operations, ProjectRow, Status
from headrace.gateway import choosing, rows
from headrace.gateway.answering import response_of
from headrace.gateway.caller import OPEN, By, may
from headrace.gateway.errors import BadRequest, NotFound
from headrace.gateway.gateway import Gate
from headrace.gateway.jobs_api import Key, Trace
from headrace.gateway.joining_api import limited
from headrace.gateway.listing import Paged, is_one_of, listed

SECRET_BYTES_MAX = 65_000  # sealed it is a little more


class NodeChange(msgspec.Struct, forbid_unknown_fields=True):
    """What an operator does to a node: cordon, uncordon, drain, fence, delete, forget or end-strays; for how
    long jobs on a node that is drained may run on before they are asked to move.
    """

    change: str
    deadline_us: int = 0


class NewPublisher(msgspec.Struct, forbid_unknown_fields=True):
    """A pipeline's place on the bus: its project and its public NKey, which signed (base64)
    `publisher_text(project, name, at_s)`. A `durable` one also hears what happened while it was away.
    """

    name: str
    project: str
    public_key: str
    at_s: int
    signature: str
    durable: bool = False


class Renewal(msgspec.Struct, forbid_unknown_fields=True):
    """The publisher's key signed (base64) `publisher_text(project, name, at_s)`."""

    public_key: str
    at_s: int
    signature: str


@get("/nodes", summary="Nodes with their GPUs and who holds them", opt=may("read", "node"))
async def list_nodes(
    *,
    gateway: Gate,
    by: By,
    state_word: Annotated[str, QueryParameter(name="state")] = "",
    page: Paged,
) -> Response[list[NodeRow]]:
    """In order of name; those that wait for approval last."""
    is_one_of("state", state_word, choosing.NODE_STATES)
    found = choosing.nodes(gateway.projection, state_word)
    sight = by.sight
    shown = [sight.node_row(row) for row in rows.node_rows(gateway.projection, found)]
    return listed(shown, NodeRow, page, lambda row: (int(row.state == "waiting"), row.node))


@get("/nodes/{node:str}", summary="One node", opt=may("read", "node"))
async def describe_node(gateway: Gate, by: By, node: FromPath[str]) -> NodeRow:
    """404 when no node of that name ever joined."""
    found = gateway.projection.nodes.get(node)
    if found is None:
        known = ", ".join(sorted(gateway.projection.nodes)) or "none"
        raise NotFound(f"no node {node} has joined; known: {known}")
    return by.sight.node_row(rows.node_rows(gateway.projection, [node])[0])


@post(
    "/nodes/{node:str}",
    summary="Cordon, uncordon, drain, fence, delete or forget a node",
    status_code=HTTP_200_OK,
    opt=may("change", "node"),
)
async def change_node(
    *,
    gateway: Gate,
    by: By,
    node: FromPath[str],
    data: JSONBody[NodeChange],
    key: Key = "",
    trace: Trace = "",
) -> Response[Answer]:
    """To fence a node is to state that nothing runs on that machine any more."""
    by.check()
    body: dict[str, Any] = {"node": node, "change": data.change}
    if data.deadline_us:
        body["deadline_us"] = data.deadline_us
    answer = await by.ask("node.change", FLEET, body, key=key, traceparent=trace)
    return response_of(await gateway.visible(answer))


@get("/projects", summary="Departments and projects: quota, share, use", opt=may("read", "project"))
async def list_projects(gateway: Gate, by: By, page: Paged) -> Response[list[ProjectRow]]:
    """Each department before its projects, of those one may see."""
    projection = gateway.projection
    seen = [row for row in rows.project_rows(projection) if by.may("read", row.kind, row.project)]
    return listed(seen, ProjectRow, page, lambda row: rows.place(projection, row.project))


@put(
    "/secrets/{project:str}/{name:str}",
    summary="Set a secret; the body is its value",
    opt=may("set", "secret"),
)
async def set_secret(
    *,
    gateway: Gate,
    by: By,
    project: FromPath[str],
    name: FromPath[str],
    request: Request[Any, Any, Any],
    key: Key = "",
) -> Response[Answer]:
    """The value is sealed here, at once; from here on only a worker ever has it in clear."""
    by.check(project)
    value = await request.body()
    if not value or len(value) > SECRET_BYTES_MAX:
        raise BadRequest("value", "", f"a secret has 1 to {SECRET_BYTES_MAX} bytes")
    box = vault.seal_to(gateway.vault_key, value, f"secret:{project}/{name}".encode())
    body = {"name": name, "sealed": base64.b64encode(box).decode()}
    answer = await by.ask("secret.set", project, body, key=key)
    return response_of(await gateway.visible(answer))


@post(
    "/publishers",
    summary="Let a public NKey publish a project's jobs",
    opt=may("create", "publisher"),
)
async def create_publisher(
    gateway: Gate, by: By, data: JSONBody[NewPublisher], key: Key = ""
) -> Response[Answer]:
    """`jwt` in the answer is the user's credential; the seed never leaves its owner."""
    by.check(data.project)
    body = msgspec.structs.asdict(data)
    answer = await by.ask("publisher.create", body.pop("project"), body, key=key)
    return response_of(await gateway.visible(answer), created=True)


@post(
    "/publishers/{project:str}/{name:str}/credential",
    summary="A publisher renews its login, with its key alone",
    status_code=HTTP_200_OK,
    opt=OPEN,
)
async def renew_publisher(
    gateway: Gate,
    request: Request[Any, Any, Any],
    project: FromPath[str],
    name: FromPath[str],
    data: JSONBody[Renewal],
) -> Response[Answer]:
    """`jwt` in the answer is the new credential. What has expired can be renewed too, until the
    publisher is deleted.
    """
    limited(gateway, request)
    body = {"name": name, **msgspec.structs.asdict(data)}
    actor = f"publisher:{project}/{name}"
    answer = await gateway.asker.ask("publisher.renew", project, body, actor=actor)
    return response_of(await gateway.visible(answer))


@delete(
    "/publishers/{project:str}/{name:str}",
    summary="Let this publisher publish no more",
    status_code=HTTP_200_OK,
    opt=may("create", "publisher"),
)
async def delete_publisher(
    gateway: Gate, by: By, project: FromPath[str], name: FromPath[str], key: Key = ""
) -> Response[Answer]:
    """The bus ends its connections and refuses its key for ever. What it posted stands."""
    by.check(project)
    answer = await by.ask("publisher.delete", project, {"name": name}, key=key)
    return response_of(await gateway.visible(answer))


@delete(
    "/projects/{project:str}/data",
    summary="Make what the project's jobs ran unreadable for ever",
    status_code=HTTP_200_OK,
    opt=may("erase", "project"),
)
async def erase_project(
    gateway: Gate, by: By, project: FromPath[str], key: Key = ""
) -> Response[Answer]:
    """The project's keys are dropped and its files removed; the log stays as it is and its chain still verifies."""
    by.check(project)
    answer = await gateway.visible(await by.ask("project.erase", project, {}, key=key))
    await gateway.keeper.erase_logged(gateway.follower.projection.erased_at_us)
    return response_of(answer)


@get("/status", summary="The platform in numbers", opt=may("read", "platform"))
async def platform_status(gateway: Gate, by: By, request: Request[Any, Any, Any]) -> Status:
    """As this gateway sees it; of jobs those one may see."""
    return rows.status(
        gateway.projection,
        gateway.follower.now_us(),
        version=version("headrace"),
        bus=BusStatus(
            url=gateway.trust.bus_url_at(request.url.hostname or ""),
            connected=gateway.bus.connected,
        ),
        about=Operations(
            instances=gateway.instances.rows(gateway.projection.position),
            metrics=gateway.trust.metrics,
            certificate_ends_us=gateway.trust.certificate_ends_us,
            disk_permille=gateway.keeper.disk_permille(),
        ),
        sees=None if by.sees("") else by.sees,
    )

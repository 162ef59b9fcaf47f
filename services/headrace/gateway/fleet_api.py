"""Nodes, projects, documents, secrets, publishers, erasure, status."""

from __future__ import annotations

import base64
from importlib.metadata import version
from typing import Any

import msgspec
from litestar import Request, delete, get, post, put
from litestar.params import FromPath, JSONBody
from litestar.response import Response
from litestar.status_codes import HTTP_200_OK

from headrace import vault
from headrace.bus.subjects import FLEET
from headrace.client.model import Answer, NodeRow, ProjectRow, Status
from headrace.gateway import rows
from headrace.gateway.answering import response_of
from headrace.gateway.errors import BadRequest, NotFound
from headrace.gateway.gateway import Gate
from headrace.gateway.jobs_api import Key, Trace

SECRET_BYTES_MAX = 65_000  # sealed it is a little more


class NodeChange(msgspec.Struct, forbid_unknown_fields=True):
    """What an operator does to a node: cordon, uncordon or fence."""

    change: str


class NewPublisher(msgspec.Struct, forbid_unknown_fields=True):
    """A pipeline's place on the bus: its project and its public NKey."""

    name: str
    project: str
    public_key: str


@get("/nodes", summary="Nodes with their GPUs and who holds them")
async def list_nodes(gateway: Gate) -> list[NodeRow]:
    """In order of name; those that wait for approval last."""
    nodes, waiting = gateway.projection.nodes, gateway.projection.waiting
    joined = [rows.node_row(gateway.projection, nodes[name]) for name in sorted(nodes)]
    return joined + [
        NodeRow(node=name, state="waiting", host=waiting[name].host) for name in sorted(waiting)
    ]


@get("/nodes/{node:str}", summary="One node")
async def describe_node(gateway: Gate, node: FromPath[str]) -> NodeRow:
    """404 when no node of that name ever joined."""
    found = gateway.projection.nodes.get(node)
    if found is None:
        known = ", ".join(sorted(gateway.projection.nodes)) or "none"
        raise NotFound(f"no node {node} has joined; known: {known}")
    return rows.node_row(gateway.projection, found)


@post("/nodes/{node:str}", summary="Cordon, uncordon or fence a node", status_code=HTTP_200_OK)
async def change_node(
    gateway: Gate, node: FromPath[str], data: JSONBody[NodeChange], key: Key = "", trace: Trace = ""
) -> Response[Answer]:
    """To fence a node is to state that nothing runs on that machine any more."""
    body = {"node": node, "change": data.change}
    answer = await gateway.asker.ask("node.change", FLEET, body, key=key, traceparent=trace)
    return response_of(await gateway.visible(answer))


@get("/projects", summary="Departments and projects: quota, share, use")
async def list_projects(gateway: Gate) -> list[ProjectRow]:
    """Each department before its projects."""
    return rows.project_rows(gateway.projection)


@put("/documents", summary="Create or change a department, project, pool or webhook")
async def apply_document(
    gateway: Gate, request: Request[Any, Any, Any], key: Key = "", trace: Trace = ""
) -> Response[Answer]:
    """The body is one document as JSON. `change` tells what became of it."""
    body = await request.body()
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequest("body", "", f"not a document in JSON: {error}") from error
    if not isinstance(document, dict):
        raise BadRequest("body", "", "a document is a JSON object")
    kind = document.get("type")
    verb = {"pool": "pool.apply", "webhook": "webhook.apply"}.get(str(kind), "queue.apply")
    of = str(document.get("project", "")) if kind == "webhook" else FLEET
    answer = await gateway.asker.ask(verb, of, body, key=key, traceparent=trace)
    return response_of(await gateway.visible(answer))


@put("/secrets/{project:str}/{name:str}", summary="Set a secret; the body is its value")
async def set_secret(
    gateway: Gate,
    project: FromPath[str],
    name: FromPath[str],
    request: Request[Any, Any, Any],
    key: Key = "",
) -> Response[Answer]:
    """The value is sealed here, at once; from here on only a worker ever has it in clear."""
    value = await request.body()
    if not value or len(value) > SECRET_BYTES_MAX:
        raise BadRequest("value", "", f"a secret has 1 to {SECRET_BYTES_MAX} bytes")
    box = vault.seal_to(gateway.vault_key, value, f"secret:{project}/{name}".encode())
    body = {"name": name, "sealed": base64.b64encode(box).decode()}
    answer = await gateway.asker.ask("secret.set", project, body, key=key)
    return response_of(await gateway.visible(answer))


@post("/publishers", summary="Let a public NKey publish a project's jobs")
async def create_publisher(
    gateway: Gate, data: JSONBody[NewPublisher], key: Key = ""
) -> Response[Answer]:
    """`jwt` in the answer is the user's credential; the seed never leaves its owner."""
    body = {"name": data.name, "public_key": data.public_key}
    answer = await gateway.asker.ask("publisher.create", data.project, body, key=key)
    return response_of(await gateway.visible(answer), created=True)


@delete(
    "/projects/{project:str}/data",
    summary="Make what the project's jobs ran unreadable for ever",
    status_code=HTTP_200_OK,
)
async def erase_project(gateway: Gate, project: FromPath[str], key: Key = "") -> Response[Answer]:
    """The project's keys are dropped and its files removed; the log stays as it is and its chain still verifies."""
    answer = await gateway.visible(await gateway.asker.ask("project.erase", project, {}, key=key))
    await gateway.keeper.erase_logged(gateway.follower.projection.erased_at_us)
    return response_of(answer)


@get("/status", summary="The platform in numbers")
async def platform_status(gateway: Gate) -> Status:
    """As this gateway sees it."""
    return rows.status(
        gateway.projection,
        gateway.follower.now_us(),
        version=version("headrace"),
        bus=gateway.bus.connected,
    )

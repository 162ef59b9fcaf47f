"""The OpenAPI 3.1 document of this gateway, served and kept under proto-schemas.

Rule: generated from the routes and the Structs they take and give; only what a route's signature does
not say (bodies taken as bytes, who is let in) is said here.

`python -m headrace.gateway.openapi proto-schemas` writes it, `--check` tells whether it is stale.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
from litestar import Litestar, Router
from litestar.di import Provide
from litestar.openapi import OpenAPIConfig

from headrace.client.model import Answer, HappeningPage
from headrace.client.protocol import AFTER_POSITION, POSITION
from headrace.documents.fleet import QueueDocument
from headrace.documents.job_file import JobFile
from headrace.documents.pool_file import PoolDocument
from headrace.documents.scheduling_file import SchedulingDocument
from headrace.documents.template_file import TemplateDocument
from headrace.documents.volume_file import VolumeDocument
from headrace.documents.webhook_file import WebhookDocument
from headrace.gateway.events_api import SSE
from headrace.gateway.jobs_api import LINES
from headrace.gateway.listing import page_of
from headrace.gateway.routes import PREFIX, ROUTES

FILE = "openapi.json"
ABOUT = (
    "Who asks needs a token: `Authorization: Bearer …`. A request that changes something may carry an "
    "`Idempotency-Key`; sent again under the same key it is the same request. Whatever goes wrong is "
    "an `Answer` with one line in `message`; 429 and `Retry-After` mean that it was not looked at. "
    "Answers to changes have the `position` of the log at which they hold: who names one in the header "
    f"`{AFTER_POSITION}` is shown nothing older. Lists hold at the position in their `{POSITION}`, and "
    "their next page is where their `Link` leads (RFC 8288). What is shown is as of now: `at` is not "
    "yet supported. Amounts of GPU are thousandths, times µs since 1970."
)

_REF = "#/components/schemas/{name}"
_JSON, _BYTES = "application/json", "application/octet-stream"
_DOCUMENTS = (
    QueueDocument,
    PoolDocument,
    VolumeDocument,
    TemplateDocument,
    WebhookDocument,
    SchedulingDocument,
)
_BODIES: dict[tuple[str, str], dict[str, Any]] = {
    (f"{PREFIX}/jobs", "post"): {_JSON: {"schema": {"$ref": _REF.format(name="JobFile")}}},
    (f"{PREFIX}/documents", "put"): {
        _JSON: {"schema": {"anyOf": [{"$ref": _REF.format(name=d.__name__)} for d in _DOCUMENTS]}}
    },
    (f"{PREFIX}/secrets/{{project}}/{{name}}", "put"): {
        _BYTES: {"schema": {"type": "string", "format": "binary"}}
    },
}
_STREAMS = {  # what is not JSON, by the end of its path
    "/outputs/{tree}": {_BYTES: {"schema": {"type": "string", "format": "binary"}}},
    "/logs": {
        LINES: {"schema": {"type": "string"}},
        _BYTES: {"schema": {"type": "string", "format": "binary"}},
    },
}


def main(arguments: list[str]) -> int:
    """Write the document into the folder, or with `--check` return 1 if it is stale there."""
    check, places = "--check" in arguments, [a for a in arguments if a != "--check"]
    if len(places) != 1:
        print("usage: python -m headrace.gateway.openapi FOLDER [--check]", file=sys.stderr)
        return 2
    path = Path(places[0]) / FILE
    data = msgspec.json.format(encoded(), indent=2) + b"\n"
    if not check:
        path.write_bytes(data)
        return 0
    if path.exists() and path.read_bytes() == data:
        return 0
    print(f"{FILE} is stale: run make schemas")
    return 1


@cache
def encoded() -> bytes:
    """The document as JSON."""
    return msgspec.json.encode(document(), order="deterministic")


def document() -> dict[str, Any]:
    """The document."""
    described = Litestar(
        [Router(PREFIX, route_handlers=ROUTES)],
        dependencies={
            "gateway": Provide(lambda: None, sync_to_thread=False),
            "by": Provide(lambda: None, sync_to_thread=False),
            "page": Provide(page_of, sync_to_thread=False),
        },
        openapi_config=OpenAPIConfig(
            title="Headrace", version=version("headrace"), description=ABOUT
        ),
    )
    found: dict[str, Any] = described.openapi_schema.to_schema()
    components = found.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    _, taken = msgspec.json.schema_components(
        (JobFile, Answer, HappeningPage, *_DOCUMENTS), ref_template=_REF
    )
    schemas.update(taken)
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    found["security"] = [{"token": []}]
    is_open = _open_routes(described)
    for path, methods in found["paths"].items():
        for method, operation in methods.items():
            _complete(operation, _BODIES.get((path, method)), is_open=(path, method) in is_open)
            for end, content in _STREAMS.items():
                if path.endswith(end):
                    operation["responses"]["200"]["content"] = content
    events = found["paths"][f"{PREFIX}/events"]["get"]["responses"]["200"]
    events["content"] = {
        _JSON: {"schema": {"$ref": _REF.format(name="HappeningPage")}},
        SSE: {"schema": {"type": "string"}},
    }
    return found


def _complete(operation: dict[str, Any], body: dict[str, Any] | None, *, is_open: bool) -> None:
    """What is the same for every operation, and what its signature does not say."""
    answer = {_JSON: {"schema": {"$ref": _REF.format(name="Answer")}}}
    responses = operation["responses"]
    responses.pop("400", None)
    responses["default"] = {"description": "Why not, in one line", "content": answer}
    for parameter in operation.get(
        "parameters", ()
    ):  # routes that share a function have all of them
        if parameter["in"] == "path" and "oneOf" in parameter["schema"]:
            (parameter["schema"],) = (
                kind for kind in parameter["schema"]["oneOf"] if kind != {"type": "null"}
            )
    if body is not None:
        operation["requestBody"] = {"required": True, "content": body}
    if is_open:
        operation["security"] = []


def _open_routes(described: Litestar) -> frozenset[tuple[str, str]]:
    return frozenset(
        (path, method.lower())
        for route in described.routes
        for handler in getattr(route, "route_handlers", ())
        for method in getattr(handler, "http_methods", ())
        if handler.opt.get("open")
        for path in [route.path_format]
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

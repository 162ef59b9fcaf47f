"""The HTTP application: routes, who is let in, health and OpenAPI.

Rule: each route of `/v1` says in its options what one must be allowed to do to call it; one that
says nothing is closed. What a machine that joins asks is open, and `/livez`, `/readyz`, and `/schema`,
which say nothing of anybody's jobs; `/metrics` is for who shows their token.
"""

from __future__ import annotations

from typing import Any

from litestar import Litestar, MediaType, Request, Response, Router, get
from litestar.di import Provide
from litestar.exceptions import HTTPException
from litestar.types import ASGIApp

from headrace.gateway import openapi
from headrace.gateway.answering import (
    BODY_BYTES_MAX,
    SCHEMA,
    on_failure,
    on_http_error,
)
from headrace.gateway.caller import caller_of
from headrace.gateway.errors import GatewayError
from headrace.gateway.gateway import Gate, Gateway
from headrace.gateway.letting_in import guard
from headrace.gateway.listing import page_of
from headrace.gateway.origins import harmless
from headrace.gateway.routes import PREFIX, ROUTES
from headrace.gateway.submitting import with_submissions
from headrace.gateway.workspaces_api import with_workspaces
from headrace.runtime.health import NEEDS_TOKEN
from headrace.store.interface import Unavailable


def application(gateway: Gateway, routes: Litestar | None = None) -> ASGIApp:
    """The ASGI application of one gateway. `routes` are those of one that is no longer served: to
    make them takes 0.2 s.
    """
    routes = routes or api()
    routes.state.gateway = gateway
    return with_workspaces(gateway, harmless(with_submissions(gateway, routes)))


def api() -> Litestar:
    """What is found at the own host of the gateway that its `state` names."""
    made = Litestar(
        [
            Router(PREFIX, route_handlers=ROUTES, guards=[guard]),
            livez,
            readyz,
            metrics,
            schema,
        ],
        dependencies={
            "gateway": Provide(lambda: made.state.gateway, sync_to_thread=False),
            "by": Provide(caller_of, sync_to_thread=False),
            "page": Provide(page_of, sync_to_thread=False),
        },
        exception_handlers={
            GatewayError: on_failure,
            HTTPException: on_http_error,
            Unavailable: on_failure,
            Exception: on_failure,
        },
        openapi_config=None,
        request_max_body_size=BODY_BYTES_MAX,
        logging_config=None,
    )
    return made


@get("/livez", include_in_schema=False)
async def livez() -> dict[str, str]:
    """The process runs."""
    return {"service": "gateway"}


@get("/readyz", include_in_schema=False)
async def readyz(gateway: Gate) -> Response[dict[str, object]]:
    """The projection is at the head of the log and the bus is there."""
    is_ready = gateway.follower.ready and gateway.bus.connected
    body: dict[str, object] = {
        "service": "gateway",
        "ready": is_ready,
        "position": gateway.follower.projection.position,
        "bus": gateway.bus.connected,
    }
    return Response(body, status_code=200 if is_ready else 503)


@get("/metrics", media_type=MediaType.TEXT, include_in_schema=False)
async def metrics(gateway: Gate, request: Request[Any, Any, Any]) -> Response[str]:
    """The gateway's own numbers for Prometheus, which shows their token."""
    if not gateway.metrics_token.is_shown(request.headers.get("authorization", "")):
        status, kind, why = NEEDS_TOKEN
        return Response(why.decode(), status_code=status, media_type=kind)
    projection = gateway.follower.projection
    return Response(
        "# TYPE headrace_log_position gauge\n"
        f'headrace_log_position{{service="gateway"}} {projection.position}\n'
        "# TYPE headrace_gateway_jobs gauge\n"
        f'headrace_gateway_jobs{{life="live"}} {len(projection.live)}\n'
        f'headrace_gateway_jobs{{life="ended"}} {len(projection.ended)}\n'
    )


@get(SCHEMA, include_in_schema=False)
async def schema() -> Response[bytes]:
    """What is offered here, for people and programs."""
    return Response(openapi.encoded(), media_type="application/vnd.oai.openapi+json")

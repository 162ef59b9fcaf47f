"""The HTTP application: routes, who is let in, health and OpenAPI.

Rule: `/v1` needs the token, but for what a machine that joins asks (`opt` open); `/livez`, `/readyz`,
`/metrics` and `/schema` need none and say nothing of anybody's jobs.
"""

from __future__ import annotations

from importlib.metadata import version

from litestar import Litestar, MediaType, Response, Router, get
from litestar.datastructures import State
from litestar.di import Provide
from litestar.exceptions import HTTPException
from litestar.openapi import OpenAPIConfig

from headrace.gateway import (
    bundles_api,
    events_api,
    fleet_api,
    jobs_api,
    joining_api,
    sessions_api,
    usage_api,
    webhooks_api,
)
from headrace.gateway.answering import (
    BODY_BYTES_MAX,
    guard,
    on_failure,
    on_gateway_error,
    on_http_error,
    on_unavailable,
)
from headrace.gateway.errors import GatewayError
from headrace.gateway.gateway import Gate, Gateway
from headrace.store.interface import Unavailable

ROUTES = (
    jobs_api.submit,
    jobs_api.list_jobs,
    jobs_api.describe_job,
    jobs_api.cancel_job,
    jobs_api.job_why,
    jobs_api.job_logs,
    sessions_api.job_session,
    bundles_api.has_bundle,
    bundles_api.put_bundle,
    bundles_api.put_objects,
    events_api.events,
    fleet_api.list_nodes,
    fleet_api.describe_node,
    fleet_api.change_node,
    fleet_api.list_projects,
    fleet_api.apply_document,
    fleet_api.set_secret,
    fleet_api.create_publisher,
    fleet_api.erase_project,
    fleet_api.platform_status,
    usage_api.list_usage,
    webhooks_api.list_webhooks,
    webhooks_api.delete_webhook,
    joining_api.create_join_token,
    joining_api.revoke_join_token,
    joining_api.approve_node,
    joining_api.join,
    joining_api.credential,
)


def application(gateway: Gateway) -> Litestar:
    """The ASGI application of one gateway."""
    return Litestar(
        [Router("/v1", route_handlers=ROUTES, guards=[guard]), livez, readyz, metrics],
        dependencies={"gateway": Provide(lambda: gateway, sync_to_thread=False)},
        exception_handlers={
            GatewayError: on_gateway_error,
            HTTPException: on_http_error,
            Unavailable: on_unavailable,
            Exception: on_failure,
        },
        openapi_config=OpenAPIConfig(title="Headrace", version=version("headrace")),
        request_max_body_size=BODY_BYTES_MAX,
        state=State({"token": gateway.token}),
        logging_config=None,
    )


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
async def metrics(gateway: Gate) -> str:
    """The gateway's own numbers for Prometheus."""
    projection = gateway.follower.projection
    return (
        "# TYPE headrace_log_position gauge\n"
        f'headrace_log_position{{service="gateway"}} {projection.position}\n'
        "# TYPE headrace_gateway_jobs gauge\n"
        f'headrace_gateway_jobs{{life="live"}} {len(projection.live)}\n'
        f'headrace_gateway_jobs{{life="ended"}} {len(projection.ended)}\n'
    )

"""Who is let in at all, before a route looks at what is asked.

Rule: a route that says nothing lets in nobody. The framework asks here, and so does whoever answers
without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler

from headrace.client.protocol import AFTER_POSITION
from headrace.events import Refusal
from headrace.gateway.caller import CALLER, Caller, Permission
from headrace.gateway.errors import BadRequest, Denied, NotReady, TooMany, Unauthorized
from headrace.gateway.gateway import Gateway

POSITION_DIGITS_MAX = 18


class Knock(msgspec.Struct, frozen=True):
    """How somebody comes: `method` is empty for a WebSocket, `address` where it is not known."""

    headers: Mapping[str, str]
    method: str
    address: str


async def guard(connection: ASGIConnection[Any, Any, Any, Any], route: BaseRouteHandler) -> None:
    """Let in who may call the route at all.

    Raises what `let_in` does, and `BadRequest` for a moment of the past, which cannot be shown yet.
    """
    if route.opt.get("open"):
        return
    gateway: Gateway = connection.app.state.gateway
    address = connection.client.host if connection.client else ""
    knock = Knock(connection.headers, str(connection.scope.get("method", "")), address)
    permission = route.opt.get("may")
    caller = await let_in(gateway, knock, permission, signed_in=bool(route.opt.get("signed_in")))
    if connection.scope["query_string"] and "at" in connection.query_params:
        rule = "is not yet supported: what is shown is as of now"
        raise BadRequest("at", str(connection.query_params["at"]), rule)
    connection.scope[CALLER] = caller  # type: ignore[literal-required]


async def let_in(
    gateway: Gateway, knock: Knock, permission: Permission | None, *, signed_in: bool = False
) -> Caller:
    """The asker, if they may do this anywhere, or it is open to all who are signed in; once what the
    request names has been read of the log.

    Raises `Unauthorized`, `Forbidden`, `TooMany`, `BadRequest`, `NotReady`.
    """
    await gateway.authenticator.prepare(knock.headers, knock.method)
    try:
        caller = Caller(gateway, knock.headers, permission)
    except Unauthorized as error:
        if not gateway.strangers.takes(knock.address):
            raise TooMany("too many wrong tokens from this address; try again later") from None
        gateway.denials.note("", str(error), address=knock.address)
        raise
    if permission is None and not signed_in:
        raise Denied(Refusal(field="access", rule="this route says not who may call it"))
    gateway.sign_ins.note(caller.login, gateway.directory)
    caller.check_somewhere()
    await _as_of(gateway, knock.headers.get(AFTER_POSITION, ""))
    return caller


async def _as_of(gateway: Gateway, after: str) -> None:
    """Wait until so much has been read of the log."""
    if not after:
        return
    if not after.isdecimal() or len(after) > POSITION_DIGITS_MAX:
        raise BadRequest(AFTER_POSITION, after, "is no position of the log")
    await gateway.follower.reached(int(after))
    if gateway.follower.projection.position < int(after):
        raise NotReady(
            f"the log is read up to {gateway.follower.projection.position} here, not yet {after}"
        )

"""Who is let in at all, before a route looks at what is asked.

Rule: a route that says nothing lets in nobody. The framework asks here, and so does whoever answers
without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import msgspec
from litestar.connection import ASGIConnection
from litestar.datastructures import MultiDict
from litestar.exceptions import MethodNotAllowedException
from litestar.handlers import BaseRouteHandler

from headrace.client.protocol import AFTER_POSITION
from headrace.documents.wording import meant
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

    Raises what `let_in` does, and `BadRequest` for what the route does not take in a query.
    """
    if connection.scope.get("method") == "OPTIONS":  # of which the framework knows but a part
        raise MethodNotAllowedException(headers={"Allow": _methods(connection)})
    if route.opt.get("open"):
        return
    gateway: Gateway = connection.app.state.gateway
    address = connection.client.host if connection.client else ""
    knock = Knock(connection.headers, str(connection.scope.get("method", "")), address)
    permission = route.opt.get("may")
    caller = await let_in(gateway, knock, permission, signed_in=bool(route.opt.get("signed_in")))
    if connection.scope["query_string"]:
        _check_query(connection.query_params, _query_names(route))
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
    after = knock.headers.get(AFTER_POSITION, "")
    if after:
        await read_up_to(gateway, AFTER_POSITION, position_of(AFTER_POSITION, after))
    return caller


def position_of(field: str, text: str) -> int:
    """A position of the log. Raises `BadRequest` for what is none."""
    if not (text.isascii() and text.isdecimal()) or len(text) > POSITION_DIGITS_MAX:
        raise BadRequest(field, text, "is no position of the log")
    return int(text)


async def read_up_to(gateway: Gateway, field: str, position: int) -> None:
    """Return once so much has been read of the log. Raises `BadRequest` when the log has not so much,
    `NotReady` when reading takes too long.
    """
    await gateway.follower.reached(position)
    read = gateway.follower.projection.position
    if read < position:
        head = (await gateway.store.head()).position
        if head < position:
            raise BadRequest(field, str(position), f"is beyond the log, which ends at {head}")
        raise NotReady(f"the log is read up to {read} here, not yet {position}")


def _methods(connection: ASGIConnection[Any, Any, Any, Any]) -> str:
    """What the path that is asked offers; the schema, which is open, says it too."""
    path = connection.scope["path_template"]
    at = (each for each in connection.app.routes if path in (each.path, each.path_format))
    found = {method for each in at for method in getattr(each, "methods", ())}
    return ", ".join(sorted(found - {"OPTIONS"}))


@cache
def _query_names(route: BaseRouteHandler) -> tuple[str, ...]:
    """What the route takes in a query."""
    taken = route.create_kwargs_model({}).expected_query_params
    return tuple(sorted(each.field_alias for each in taken))


def _check_query(given: MultiDict[Any], known: Sequence[str]) -> None:
    """Raise `BadRequest` for a word that would be ignored otherwise: a filter that is misspelt shows
    everything, and of two values one.
    """
    for name, value in given.multi_items():
        if name == "at":
            rule = "is not yet supported: what is shown is as of now"
            raise BadRequest(name, str(value), rule)
        if name not in known:
            none = "this takes no query"
            raise BadRequest(name, "", "unknown field", meant(name, "fields", known, none))
        if len(given.getall(name)) > 1:
            raise BadRequest(name, str(value), "is there more than once", "one of them")

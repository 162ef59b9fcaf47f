"""`/v1/login/browser`, `/v1/login/return`, `/v1/logout`: signing in with a browser, and out.

Rule: the browser learns nothing but a cookie; where it goes afterwards is on this host.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Annotated, Any

from litestar import MediaType, Request, get, post
from litestar.params import FromQuery, QueryParameter
from litestar.response import Response

from headrace.client.people_model import Entrance
from headrace.gateway.authenticating import Provider
from headrace.gateway.browsers import (
    AWAY_COOKIE,
    AWAY_S_MAX,
    COOKIE,
    Away,
    nonce_of,
    set_cookie,
)
from headrace.gateway.caller import OPEN
from headrace.gateway.errors import BadRequest, NotFound, NotReady, TooMany, Unauthorized
from headrace.gateway.fetching import FetchError, fetch_json
from headrace.gateway.gateway import Gate, Gateway

RETURN = "/v1/login/return"
HOME = "/v1/me"
NO_PAGES = "the identity provider has no page for browsers here; headrace login signs in"
ANEW = "this sign-in was not begun in this browser, or too long ago: /v1/login/browser begins anew"

_LOG = logging.getLogger("headrace.gateway")


@get("/login/browser", summary="Sign in with a browser", status_code=303, opt=OPEN)
async def sign_in(
    gateway: Gate, request: Request[Any, Any, Any], to: FromQuery[str] = HOME
) -> Response[bytes]:
    """To the identity provider's page, and back to the path `to` of this host, with a cookie."""
    if not to.startswith("/") or to[1:2] in ("/", "\\") or not to.isprintable() or not to.isascii():
        raise BadRequest("to", to, "is no path of this host")
    _, entrance = await _entrance(gateway, request)
    here = f"{str(request.base_url).rstrip('/')}{RETURN}"
    state, page = gateway.browsers.leave(
        entrance, here, to, request.client.host if request.client else ""
    )
    cookie = set_cookie(AWAY_COOKIE, state, is_secure=_is_secure(request), age_s=int(AWAY_S_MAX))
    return _sent_to(page, cookie)


@get("/login/return", summary="Where the identity provider sends to", status_code=303, opt=OPEN)
async def come_back(
    gateway: Gate,
    request: Request[Any, Any, Any],
    left_with: Annotated[str, QueryParameter(name="state")] = "",
    code: FromQuery[str] = "",
    error: FromQuery[str] = "",
) -> Response[bytes]:
    """The code becomes a cookie. 401 when the provider vouches for nobody whom we let in."""
    provider, entrance = await _entrance(gateway, request)
    away = gateway.browsers.came_back(left_with, request.headers)
    if away is None:
        raise BadRequest("state", "", ANEW)
    if not code:
        raise Unauthorized(f"the identity provider answers: {(error or 'no code')[:200]}")
    bearer = await _exchanged(entrance, away, code)
    await provider.prepare(bearer)
    login = gateway.authenticator.login({"authorization": f"Bearer {bearer}"})
    if nonce_of(bearer) != away.nonce:
        raise Unauthorized("this login was made for another sign-in")
    cookie = set_cookie(
        COOKIE, gateway.browsers.enter(bearer, login.subject.name), is_secure=_is_secure(request)
    )
    return _sent_to(away.to, cookie)


@post("/logout", summary="Sign out in this browser", status_code=204, opt=OPEN)
async def sign_out(gateway: Gate, request: Request[Any, Any, Any]) -> Response[None]:
    """Its cookie is good for nothing any more."""
    gateway.browsers.check_page(request.headers, request.method)
    gateway.browsers.end(request.headers)
    gone = set_cookie(COOKIE, "", is_secure=_is_secure(request), age_s=0)
    return Response(None, status_code=204, headers={"Set-Cookie": gone})


async def _entrance(gateway: Gateway, request: Request[Any, Any, Any]) -> tuple[Provider, Entrance]:
    """The provider, and its pages. Raises `TooMany`, `NotFound`, `NotReady`."""
    if not gateway.limiter.takes(request.client.host if request.client else ""):
        raise TooMany("too many sign in from this address at once; try again soon")
    provider = gateway.authenticator.provider
    entrance = await provider.entrance() if provider is not None else None
    if provider is None or entrance is None or not entrance.authorize_url:
        raise NotFound(NO_PAGES)
    return provider, entrance


async def _exchanged(entrance: Entrance, away: Away, code: str) -> str:
    """The ID token of the code. Raises `NotReady`, `Unauthorized`."""
    form = away.form(entrance.client_id, code)
    try:
        answer = await asyncio.to_thread(fetch_json, entrance.token_url, form)
    except FetchError as failed:
        _LOG.warning("code not exchanged error=%s", failed)
        raise NotReady("the identity provider did not take its own code; sign in again") from None
    bearer = answer.get("id_token")
    if not isinstance(bearer, str):
        raise Unauthorized("the identity provider vouches for nobody")
    return bearer


def _sent_to(address: str, cookie: str) -> Response[bytes]:
    headers = {
        "Location": address,
        "Set-Cookie": cookie,
        "Cache-Control": "no-store",
        "Referrer-Policy": "no-referrer",
    }
    return Response(b"", status_code=303, headers=headers, media_type=MediaType.TEXT)


def _is_secure(request: Request[Any, Any, Any]) -> bool:
    return str(request.url.scheme) == "https"


ROUTES = (sign_in, come_back, sign_out)

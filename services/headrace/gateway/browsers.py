"""Who is signed in with a browser: those who went to the provider, and the cookies of those who came
back.

Rule: the provider's token stays here; a browser has a cookie that no script reads and no other host
is sent, good for as long as the token is. Cookies are known by their SHA-256, to this process alone:
after a restart people sign in anew, which the provider may not even ask them about.
Semantics: OpenID Connect Core 1.0 §3.1, PKCE (RFC 7636), RFC 9700 §2.1.1, RFC 6265bis §4.1.3.2.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Callable, Mapping
from typing import NamedTuple
from urllib.parse import urlencode

import msgspec

from headrace.client.people_model import Entrance
from headrace.gateway.errors import Forbidden
from headrace.gateway.fair_cache import FairCache
from headrace.gateway.origins import is_of_own_pages

SCOPE = "openid email profile groups"
AWAY_S_MAX = 600.0  # at the provider
AWAY_MAX = 1_000
COOKIES_MAX = 10_000

COOKIE, AWAY_COOKIE = "headrace", "headrace_away"

NOT_HERE = "a page of another place may link here, and ask for nothing else with your cookie"

_Nonce = msgspec.defstruct("_Nonce", [("nonce", str, "")])


class Away(NamedTuple):
    """Somebody at the provider: what proves that the answer is theirs, where they want to go."""

    verifier: str
    nonce: str
    here: str
    to: str
    until_s: float

    def form(self, client_id: str, code: str) -> bytes:
        """What their code is exchanged with, at the provider's token endpoint."""
        return urlencode(
            {
                "grant_type": "authorization_code",
                "client_id": client_id,
                "code": code,
                "redirect_uri": self.here,
                "code_verifier": self.verifier,
            }
        ).encode()


class Browsers:
    """The browsers of one gateway. `now_s` is a steady clock."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._away: FairCache[Away] = FairCache(AWAY_MAX)
        self._bearers: FairCache[str] = FairCache(COOKIES_MAX)

    def leave(self, entrance: Entrance, here: str, to: str, address: str) -> tuple[str, str]:
        """A state for a browser to keep, and the provider's page that it is sent to. The provider
        sends it back to `here`; then it goes to `to`. `address` is where the browser is.
        """
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        until_s = self._now_s() + AWAY_S_MAX
        self._away.put(_digest(state), Away(verifier, nonce, here, to, until_s), address)
        challenge = hashlib.sha256(verifier.encode()).digest()
        asked = {
            "response_type": "code",
            "client_id": entrance.client_id,
            "redirect_uri": here,
            "scope": SCOPE,
            "state": state,
            "nonce": nonce,
            "code_challenge": base64.urlsafe_b64encode(challenge).decode().rstrip("="),
            "code_challenge_method": "S256",
        }
        joint = "&" if "?" in entrance.authorize_url else "?"
        return state, f"{entrance.authorize_url}{joint}{urlencode(asked)}"

    def came_back(self, state: str, headers: Mapping[str, str]) -> Away | None:
        """Who left with this state, once, in the browser that left with it and in time."""
        away = self._away.pop(_digest(state))
        is_theirs = secrets.compare_digest(_cookie(headers, AWAY_COOKIE).encode(), state.encode())
        return away if away and is_theirs and self._now_s() < away.until_s else None

    def enter(self, bearer: str, user: str) -> str:
        """The cookie of `user`, who has this token of the provider."""
        cookie = secrets.token_urlsafe(32)
        self._bearers.put(_digest(cookie), bearer, user)
        return cookie

    def bearer(self, headers: Mapping[str, str]) -> str:
        """The token of whose cookie comes with these headers; empty when it is nobody's."""
        cookie = _cookie(headers, COOKIE)
        return (self._bearers.get(_digest(cookie)) or "") if cookie else ""

    def check_page(self, headers: Mapping[str, str], method: str) -> None:
        """Raise `Forbidden` unless our own pages, or links, may ask so with a cookie."""
        if not is_of_own_pages(lambda name: headers.get(name, ""), method):
            raise Forbidden(NOT_HERE)

    def end(self, headers: Mapping[str, str]) -> None:
        """Whose cookie comes with these headers is not signed in any more."""
        self._bearers.pop(_digest(_cookie(headers, COOKIE)))


def set_cookie(name: str, value: str, *, is_secure: bool, age_s: int | None = None) -> str:
    """A cookie for this host alone; with `age_s` for so long, else until the browser is closed."""
    named, secure = (f"__Host-{name}", "; Secure") if is_secure else (name, "")
    age = "" if age_s is None else f"; Max-Age={age_s}"
    return f"{named}={value}; Path=/; HttpOnly; SameSite=Lax{secure}{age}"


def nonce_of(bearer: str) -> str:
    """The nonce in an ID token whose signature was checked."""
    body = bearer.split(".")[1]
    claims = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))
    return str(msgspec.json.decode(claims, type=_Nonce).nonce)  # type: ignore[attr-defined]


def _cookie(headers: Mapping[str, str], name: str) -> str:
    """The cookie of that name; one that only this host can have set before any other."""
    crumbs = [crumb.strip().partition("=") for crumb in headers.get("cookie", "").split(";")]
    found = {key: value for key, _, value in reversed(crumbs)}
    return found.get(f"__Host-{name}") or found.get(name, "")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

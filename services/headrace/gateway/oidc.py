"""Whom an OpenID Connect provider vouches for: the checks of an ID token, and the provider's keys.

Rule: only signatures that need the provider's private key count, only for us and only now. Nothing in
a token is believed before its signature, and no claim of another type than the standard gives it; a
key that the provider has withdrawn is forgotten within `KEYS_S_MAX`. Semantics: OpenID Connect Core 1.0 §3.1.3.7, RFC 8725.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from headrace.access.names import is_group
from headrace.client.people_model import Entrance
from headrace.gateway.authenticating import Identity
from headrace.gateway.errors import NotReady, Unauthorized
from headrace.gateway.fetching import FetchError, fetch_json
from headrace.gateway.oidc_settings import OidcSettings

ALGORITHMS = ["RS256", "PS256", "ES256", "ES384", "EdDSA"]  # no shared secrets, and never `none`
SKEW_S = 60  # by which the provider's clock may differ from ours
KEYS_S_MAX = 300.0  # after which its keys are asked for again
KEYS_S_MIN = 10.0  # between two askings, whatever tokens come
GROUPS_MAX = 1_000  # of one token
KNOWN_MAX = 10_000  # tokens whose signature was checked
JWT_PARTS = 3

NOT_OURS = "this login is not for here"
EXPIRED = "this login has expired (headrace login)"

_LOG = logging.getLogger("headrace.gateway")


class Oidc:
    """One provider. `prepare` before `verify`: it asks for keys that are missing."""

    def __init__(
        self, settings: OidcSettings, monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        self.settings = settings
        self.discovered: dict[str, Any] = {}
        self._monotonic_s = monotonic_s
        self._keys: KeySet | None = None
        self._ids: frozenset[str] = frozenset()
        self._asked_s = self._fresh_s = -KEYS_S_MAX
        self._asking = asyncio.Lock()
        self._known: dict[bytes, Identity] = {}

    async def prepare(self, bearer: str) -> None:
        """Have the keys that a token may be signed with; a provider that cannot be reached keeps
        those that it had.
        """
        kid = key_id(bearer)
        if kid is None:
            return
        async with self._asking:
            now_s = self._monotonic_s()
            is_missing = kid not in self._ids or now_s - self._fresh_s > KEYS_S_MAX
            if is_missing and now_s - self._asked_s >= KEYS_S_MIN:
                self._asked_s = now_s
                await self.refresh()

    async def refresh(self) -> None:
        """Ask the provider for its addresses and its keys."""
        issuer = self.settings.issuer
        try:
            discovered, keys = await asyncio.to_thread(_asked, issuer)
        except (FetchError, JoseError, ValueError, TypeError, KeyError) as error:
            _LOG.warning("keys of the identity provider not read issuer=%s error=%s", issuer, error)
            return
        self.discovered, self._keys, self._fresh_s = discovered, keys, self._monotonic_s()
        self._ids = frozenset(key.kid for key in keys.keys if key.kid)
        self._known.clear()  # what a withdrawn key signed is not believed any more

    async def entrance(self) -> Entrance:
        """Where people sign in. Raises `NotReady` when the provider cannot be reached."""
        if not self.discovered:
            async with self._asking:
                if self._monotonic_s() - self._asked_s >= KEYS_S_MIN:
                    self._asked_s = self._monotonic_s()
                    await self.refresh()
        if not self.discovered:
            raise NotReady("the identity provider cannot be reached now; try again")
        return Entrance(
            issuer=self.settings.issuer,
            client_id=self.settings.audience,
            device_url=str(self.discovered.get("device_authorization_endpoint", "")),
            token_url=str(self.discovered.get("token_endpoint", "")),
            authorize_url=str(self.discovered.get("authorization_endpoint", "")),
        )

    def verify(self, bearer: str, now_s: int) -> Identity | None:
        """The identity in a JWT; None when it is no JWT. Raises `Unauthorized`."""
        if key_id(bearer) is None:
            return None
        digest = hashlib.sha256(bearer.encode()).digest()
        identity = self._known.get(digest)
        if identity is None:
            identity = self._checked(bearer, now_s)
            self._known[digest] = identity
            if len(self._known) > KNOWN_MAX:
                del self._known[next(iter(self._known))]
        if now_s >= identity.ends_at_s:
            raise Unauthorized(EXPIRED)
        return identity

    def _checked(self, bearer: str, now_s: int) -> Identity:
        if self._keys is None or key_id(bearer) not in self._ids:
            raise Unauthorized("this login is signed with a key that the provider does not have")
        try:
            token = jwt.decode(bearer, self._keys, algorithms=ALGORITHMS)
        except (JoseError, ValueError, TypeError, KeyError, RecursionError):
            raise Unauthorized("this login's signature is not right") from None
        return self._identity(token.claims, now_s)

    def _identity(self, claims: Mapping[str, Any], now_s: int) -> Identity:
        settings, audience = self.settings, claims.get("aud")
        audiences = audience if isinstance(audience, list) else [audience]
        if claims.get("iss") != settings.issuer or settings.audience not in audiences:
            raise Unauthorized(NOT_OURS)
        azp = claims.get("azp", settings.audience if len(audiences) == 1 else None)
        if azp != settings.audience:
            raise Unauthorized(NOT_OURS)
        ends_s = _seconds(claims.get("exp"))
        starts_s = [_seconds(claims.get(name, 0)) for name in ("nbf", "iat")]
        if min(ends_s, *starts_s) < 0:
            raise Unauthorized("this login does not say when it is good")
        if ends_s + SKEW_S <= now_s:
            raise Unauthorized(EXPIRED)
        if max(starts_s) > now_s + SKEW_S:
            raise Unauthorized("this login begins in the future: check the clocks (NTP)")
        user = claims.get(settings.user_claim)
        if not isinstance(user, str) or claims.get("email_verified", True) is not True:
            raise Unauthorized(
                f"this login has no {settings.user_claim} that its provider vouches for"
            )
        return Identity(
            user=user, groups=_groups(claims.get(settings.groups_claim)), ends_at_s=ends_s + SKEW_S
        )


def key_id(bearer: str) -> str | None:
    """The key that a JWT says it is signed with; None when this is no JWT that names one."""
    head, *rest = bearer.split(".")
    if len(rest) != JWT_PARTS - 1:
        return None
    try:
        padded = head.encode("ascii") + b"=" * (-len(head) % 4)
        header = msgspec.json.decode(base64.b64decode(padded, b"-_", validate=True))
    except (binascii.Error, ValueError, RecursionError):
        return None
    kid = header.get("kid", "") if isinstance(header, dict) else None
    return kid if isinstance(kid, str) else None


def _asked(issuer: str) -> tuple[dict[str, Any], KeySet]:
    """What the provider says of itself, and its keys. Blocks. Raises `FetchError`, `JoseError`."""
    url = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
    discovered = fetch_json(url)
    if discovered.get("issuer") != issuer:
        raise FetchError(f"{url} speaks for another issuer")
    found = fetch_json(str(discovered.get("jwks_uri", "")))
    return discovered, KeySet.import_key_set({"keys": _signing(found)})


def _signing(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The public keys that are for signatures: never a shared secret, whatever the provider lists."""
    keys = found.get("keys")
    return [
        key
        for key in (keys if isinstance(keys, list) else [])
        if isinstance(key, dict)
        and key.get("kty") in ("RSA", "EC", "OKP")
        and key.get("use", "sig") == "sig"
        and isinstance(key.get("kid"), str)
    ]


def _seconds(value: object) -> int:
    """A NumericDate; -1 for what is none, texts and booleans among them."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**53:
        return -1
    return int(value)


def _groups(value: object) -> tuple[str, ...]:
    named = value if isinstance(value, list) else []
    return tuple(
        group for group in named[:GROUPS_MAX] if isinstance(group, str) and is_group(group)
    )

"""Which OpenID Connect provider people sign in with.

Rule: read from the environment of who starts the platform; without an issuer there is none.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class OidcSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Which provider, and what its tokens say. `audience` is our client's id there."""

    issuer: str
    audience: str
    user_claim: str = "email"
    groups_claim: str = "groups"

    @classmethod
    def read(cls, env: Mapping[str, str]) -> OidcSettings | None:
        """From `HEADRACE_OIDC_ISSUER`, `_AUDIENCE`, `_USER_CLAIM`, `_GROUPS_CLAIM`; None without.

        Raises `ValueError`.
        """
        issuer, audience = (
            env.get("HEADRACE_OIDC_ISSUER", ""),
            env.get("HEADRACE_OIDC_AUDIENCE", ""),
        )
        if not issuer:
            return None
        if not audience:
            raise ValueError("HEADRACE_OIDC_AUDIENCE must be set beside HEADRACE_OIDC_ISSUER")
        return cls(
            issuer=issuer,
            audience=audience,
            user_claim=env.get("HEADRACE_OIDC_USER_CLAIM", "") or "email",
            groups_claim=env.get("HEADRACE_OIDC_GROUPS_CLAIM", "") or "groups",
        )

"""What the gateway answers about users, roles and tokens."""

from __future__ import annotations

import msgspec


class UserRow(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A person or a service that is on record; a service belongs to the scope `home`."""

    user: str
    kind: str = "person"
    groups: tuple[str, ...] = ()
    home: str = ""
    acts_for: bool = False


class Entrance(msgspec.Struct, kw_only=True):
    """Where people sign in: the identity provider, who we are there, its addresses for a command
    line (RFC 8628), and its page for browsers, whose way begins at `/v1/login/browser`.
    """

    issuer: str
    client_id: str
    device_url: str = ""
    token_url: str = ""
    authorize_url: str = ""


class RoleRow(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A member's role in a scope (empty: the whole fleet). `listed`: by the scope's document."""

    member: str
    role: str
    scope: str = ""
    listed: bool = False


class TokenRow(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An API token without its secret. `expires_at_us` 0: until it is revoked."""

    token: str
    user: str
    name: str = ""
    scopes: list[str] = []
    projects: list[str] = []
    created_at_us: int = 0
    expires_at_us: int = 0


class Me(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Who one is: `via` is the service account that asks; `scopes` and `projects` what the token is
    narrowed to, until `expires_at_us`.
    """

    user: str
    via: str = ""
    roles: list[RoleRow] = []
    scopes: list[str] = []
    projects: list[str] = []
    expires_at_us: int = 0

"""People and programs that use the platform: users, their roles, and the tokens they show.

Rule: a token is known by the digest of its secret alone. A *member* is `user:ada`, `group:vision-team`
or `service:vision/airflow`; a *user* is a person, `ada`, or a service under its whole name. A scope is
the name of a department or project, empty for the whole fleet.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from headrace.events.base import Decision, Fact, Refusal


class Grant(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A role in a scope: the name of a department or project, empty for the whole fleet."""

    role: str
    scope: str = ""


class Account(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is on record of a user beside the name, which says whether it is a person or a service,
    and whose. `groups` are those a person is in beside what an identity provider says; a service that
    `acts_for` people may ask in their names, in its own department or project.
    """

    groups: tuple[str, ...] = ()
    acts_for: bool = False


class UserSetRequested(
    Fact, frozen=True, kw_only=True, omit_defaults=True, tag="user.set_requested.v1"
):
    """Somebody (`by`) made or changed a user."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "user/{user}"
    user: str
    account: Account
    by: str = ""


class UserSet(Decision, frozen=True, kw_only=True, omit_defaults=True, tag="user.set.v1"):
    """The user stands as given. `change` is created, updated or unchanged."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "user/{user}"
    user: str
    account: Account
    change: str


class UserRemoveRequested(
    Fact, frozen=True, kw_only=True, omit_defaults=True, tag="user.remove_requested.v1"
):
    """Somebody (`by`) asked that this user is let in no more."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "user/{user}"
    user: str
    by: str = ""


class UserRemoved(Decision, frozen=True, kw_only=True, omit_defaults=True, tag="user.removed.v1"):
    """The user is let in no more, by any token or identity provider; what was given is taken."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "user/{user}"
    user: str


class UserRefused(Decision, frozen=True, kw_only=True, omit_defaults=True, tag="user.refused.v1"):
    """The user was not changed, and why."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "user/{user}"
    user: str
    refusal: Refusal


class RoleGrantRequested(
    Fact, frozen=True, kw_only=True, omit_defaults=True, tag="role.grant_requested.v1"
):
    """Somebody (`by`) gives the member a role."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "role/{member}"
    member: str
    grant: Grant
    by: str = ""


class RoleGranted(Decision, frozen=True, kw_only=True, omit_defaults=True, tag="role.granted.v1"):
    """The member has the role until it is revoked. `change` is created or unchanged."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "role/{member}"
    member: str
    grant: Grant
    change: str


class RoleRevokeRequested(
    Fact, frozen=True, kw_only=True, omit_defaults=True, tag="role.revoke_requested.v1"
):
    """Somebody (`by`) takes a role from the member."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "role/{member}"
    member: str
    grant: Grant
    by: str = ""


class RoleRevoked(Decision, frozen=True, kw_only=True, omit_defaults=True, tag="role.revoked.v1"):
    """The member has the role no more, but for what a document's `members` say."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "role/{member}"
    member: str
    grant: Grant


class RoleRefused(Decision, frozen=True, kw_only=True, omit_defaults=True, tag="role.refused.v1"):
    """The role was not given or not taken, and why."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "role/{member}"
    member: str
    grant: Grant
    refusal: Refusal


class ApiTokenRequested(
    Fact, frozen=True, kw_only=True, omit_defaults=True, tag="token.create_requested.v1"
):
    """Somebody (`by`) made a token for `user`. `token` is its public id, `digest` the SHA-256 of the
    whole of it in hex, `name` what it is for. `scopes` and `projects` narrow it; 0 as `lasts_s` is
    until it is revoked.
    """

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "api_token/{token}"
    token: str
    digest: str
    user: str
    name: str = ""
    scopes: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    lasts_s: int = 0
    by: str = ""


class ApiTokenCreated(
    Decision, frozen=True, kw_only=True, omit_defaults=True, tag="token.created.v1"
):
    """Who shows it is `user` until `expires_at_us` (0: until it is revoked)."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "api_token/{token}"
    token: str
    digest: str
    user: str
    name: str = ""
    scopes: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    created_at_us: int = 0
    expires_at_us: int = 0


class ApiTokenRevokeRequested(
    Fact, frozen=True, kw_only=True, omit_defaults=True, tag="token.revoke_requested.v1"
):
    """Somebody (`by`) takes a token back."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "api_token/{token}"
    token: str
    by: str = ""


class ApiTokenRevoked(
    Decision, frozen=True, kw_only=True, omit_defaults=True, tag="token.revoked.v1"
):
    """Nobody is let in with it any more, and what was open with it is closed."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "api_token/{token}"
    token: str


class ApiTokenRefused(
    Decision, frozen=True, kw_only=True, omit_defaults=True, tag="token.refused.v1"
):
    """The token was not made or not revoked, and why."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "api_token/{token}"
    token: str
    refusal: Refusal


class AccessDenied(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="access.denied.v1"):
    """A door refused `user` (empty: somebody it did not know) `count` times since it last said so.
    `what` is `noun.verb`, or why it was not known; `scope` where it was tried; `address` from where.
    """

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "denied"
    is_record: ClassVar[bool] = True
    user: str
    what: str
    scope: str = ""
    address: str = ""
    count: int = 1


class AccessSignedIn(
    Fact, frozen=True, kw_only=True, omit_defaults=True, tag="access.signed_in.v1"
):
    """An identity provider vouched for a person for the first time, or with other `groups` than
    before. Their API tokens have the roles of these groups too.
    """

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "user/{user}"
    is_record: ClassVar[bool] = True
    user: str
    groups: tuple[str, ...] = ()


class AccessRead(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="access.read.v1"):
    """Somebody read what another's job wrote (`what` is logs) or left behind (outputs)."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "job/{job}"
    is_record: ClassVar[bool] = True
    public: ClassVar[tuple[str, ...]] = ("job", "project", "user", "what")
    job: str
    project: str
    user: str
    what: str = "logs"

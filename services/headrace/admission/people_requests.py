"""What is asked about users, roles and API tokens, and what a door reports of who was refused.

Rule: whether the asker may ask is judged at the door that knows who it is; here the form is. A
token's secret never comes here, only its digest.
"""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec

from headrace.access.names import (
    GROUP_RULE,
    KINDS,
    is_group,
    member_refusal,
    scopes_refusal,
    user_refusal,
)
from headrace.access.table import ROLES
from headrace.bus.subjects import FLEET, is_token
from headrace.documents.refusing import shown
from headrace.events import Fact, Refusal
from headrace.events.people import (
    AccessDenied,
    AccessRead,
    AccessSignedIn,
    Account,
    ApiTokenRequested,
    ApiTokenRevokeRequested,
    Grant,
    RoleGrantRequested,
    RoleRevokeRequested,
    UserRemoveRequested,
    UserSetRequested,
)
from headrace.runtime.service import Receive, Request, Runtime

LASTS_S_MIN, LASTS_S_MAX = 60, 10 * 366 * 86_400
GROUPS_MAX = 100  # of one user
TEXT_LENGTH_MAX = 128  # of what a token is for, or of what is on record of a refusal

_DIGEST = re.compile(r"[0-9a-f]{64}")


class _Asked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of a request."""

    def refusal(self) -> Refusal | None:
        """What is wrong with it."""
        return None


class SetUser(_Asked, frozen=True, kw_only=True):
    """`user.set`."""

    user: str
    account: Account

    def refusal(self) -> Refusal | None:
        account = self.account
        if account.kind not in KINDS:
            return Refusal(field="kind", value=shown(account.kind), rule=f"is {' or '.join(KINDS)}")
        wrong = next((group for group in account.groups if not is_group(group)), None)
        if wrong is not None or len(account.groups) > GROUPS_MAX:
            rule = f"{GROUP_RULE}, and a user is in at most {GROUPS_MAX}"
            return Refusal(field="groups", value=shown(wrong), rule=rule)
        if account.kind == "person" and (account.home or account.acts_for):
            return Refusal(field="home", rule="only a service belongs to a project")
        if account.kind == "service" and account.groups:
            return Refusal(field="groups", rule="a service is in none: give it roles of its own")
        return user_refusal(self.user)


class UserNamed(_Asked, frozen=True, kw_only=True):
    """`user.remove`."""

    user: str

    def refusal(self) -> Refusal | None:
        return user_refusal(self.user)


class GiveRole(_Asked, frozen=True, kw_only=True):
    """`role.grant` and `role.revoke`."""

    member: str
    role: str
    scope: str = ""

    def refusal(self) -> Refusal | None:
        if self.role not in ROLES:
            rule = f"is none of {', '.join(ROLES)}"
            return Refusal(field="role", value=shown(self.role), rule=rule)
        return member_refusal(self.member)


class NewApiToken(_Asked, frozen=True, kw_only=True):
    """`token.create`."""

    token: str
    digest: str
    user: str
    name: str = ""
    scopes: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    lasts_s: int = 0

    def refusal(self) -> Refusal | None:
        if not is_token(self.token) or not _DIGEST.fullmatch(self.digest):
            return Refusal(field="token", rule="is an id, and the SHA-256 of it in hex")
        if self.lasts_s and not LASTS_S_MIN <= self.lasts_s <= LASTS_S_MAX:
            rule = f"is {LASTS_S_MIN} s to {LASTS_S_MAX // 86_400} days, or 0: until revoked"
            return Refusal(field="lasts_s", value=str(self.lasts_s), rule=rule)
        if len(self.name) > TEXT_LENGTH_MAX or not self.name.isprintable():
            rule = f"has at most {TEXT_LENGTH_MAX} printable characters"
            return Refusal(field="name", value=shown(self.name), rule=rule)
        return user_refusal(self.user) or scopes_refusal(self.scopes, self.projects)


class ApiTokenNamed(_Asked, frozen=True, kw_only=True):
    """`token.revoke`."""

    token: str


class Denied(_Asked, frozen=True, kw_only=True):
    """`access.denied`: what a door refused."""

    user: str
    what: str
    scope: str = ""
    address: str = ""
    count: int = 1


class SignedIn(_Asked, frozen=True, kw_only=True):
    """`access.signed_in`: whom an identity provider vouched for."""

    user: str
    groups: tuple[str, ...] = ()

    def refusal(self) -> Refusal | None:
        return user_refusal(self.user)


class Read(_Asked, frozen=True, kw_only=True):
    """`access.read`: somebody is about to read what another's job wrote."""

    job: str
    what: str = "logs"


A = TypeVar("A", bound=_Asked)


def people_receivers() -> dict[str, Receive]:
    """What receives each verb."""
    return {
        "user.set": _set_user,
        "user.remove": _remove_user,
        "role.grant": _grant,
        "role.revoke": _revoke,
        "token.create": _create_token,
        "token.revoke": _revoke_token,
        "access.denied": _denied,
        "access.signed_in": _signed_in,
        "access.read": _read,
    }


async def _set_user(request: Request, runtime: Runtime) -> Fact | Refusal:
    del runtime
    asked = _decoded(request, SetUser)
    if isinstance(asked, Refusal):
        return asked
    return UserSetRequested(user=asked.user, account=asked.account, by=request.actor)


async def _remove_user(request: Request, runtime: Runtime) -> Fact | Refusal:
    del runtime
    asked = _decoded(request, UserNamed)
    if isinstance(asked, Refusal):
        return asked
    return UserRemoveRequested(user=asked.user, by=request.actor)


async def _grant(request: Request, runtime: Runtime) -> Fact | Refusal:
    del runtime
    asked = _decoded(request, GiveRole)
    if isinstance(asked, Refusal):
        return asked
    grant = Grant(role=asked.role, scope=asked.scope)
    return RoleGrantRequested(member=asked.member, grant=grant, by=request.actor)


async def _revoke(request: Request, runtime: Runtime) -> Fact | Refusal:
    del runtime
    asked = _decoded(request, GiveRole)
    if isinstance(asked, Refusal):
        return asked
    grant = Grant(role=asked.role, scope=asked.scope)
    return RoleRevokeRequested(member=asked.member, grant=grant, by=request.actor)


async def _create_token(request: Request, runtime: Runtime) -> Fact | Refusal:
    del runtime
    asked = _decoded(request, NewApiToken)
    if isinstance(asked, Refusal):
        return asked
    return ApiTokenRequested(**msgspec.structs.asdict(asked), by=request.actor)


async def _revoke_token(request: Request, runtime: Runtime) -> Fact | Refusal:
    del runtime
    asked = _decoded(request, ApiTokenNamed)
    if isinstance(asked, Refusal):
        return asked
    return ApiTokenRevokeRequested(token=asked.token, by=request.actor)


async def _denied(request: Request, runtime: Runtime) -> Fact | Refusal:
    del runtime
    asked = _decoded(request, Denied)
    if isinstance(asked, Refusal):
        return asked
    texts = {name: _line(getattr(asked, name)) for name in ("user", "what", "scope", "address")}
    return AccessDenied(**texts, count=max(1, asked.count))


async def _signed_in(request: Request, runtime: Runtime) -> Fact | Refusal:
    del runtime
    asked = _decoded(request, SignedIn)
    if isinstance(asked, Refusal):
        return asked
    return AccessSignedIn(user=asked.user, groups=tuple(filter(is_group, asked.groups)))


async def _read(request: Request, runtime: Runtime) -> Fact | Refusal:
    del runtime
    asked = _decoded(request, Read, of_fleet=False)
    if isinstance(asked, Refusal):
        return asked
    return AccessRead(
        job=_line(asked.job), project=request.project, user=request.actor, what=_line(asked.what)
    )


def _decoded(request: Request, kind: type[A], *, of_fleet: bool = True) -> A | Refusal:
    """The body, if it is well formed and came to the right door."""
    if of_fleet and request.project != FLEET:
        rule = "users, roles and tokens belong to the whole fleet"
        return Refusal(field="project", value=request.project, rule=rule, instead=FLEET)
    try:
        asked = msgspec.json.decode(request.body or b"{}", type=kind)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        names = ", ".join(kind.__struct_fields__)
        rule = shown(error) or "cannot be read"
        return Refusal(field="request", rule=rule, instead=f"a JSON object with {names}")
    return asked.refusal() or asked


def _line(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text[:TEXT_LENGTH_MAX])

"""Users, their roles, and the API tokens they show.

Rule: nobody gives what they do not have: no role above their own, no token that is good for more
than the one it is asked with. A token's secret is made by who asks and never comes here.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from litestar import Request, delete, get, post
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter
from litestar.response import Response
from litestar.status_codes import HTTP_200_OK

from headrace.access.allowed import WHOLE_FLEET
from headrace.access.names import home_of, is_service
from headrace.bus.subjects import FLEET
from headrace.client.model import Answer
from headrace.client.people_model import Entrance, Me, RoleRow, TokenRow
from headrace.events import Refusal
from headrace.events.people import ApiTokenCreated, Grant
from headrace.gateway.answering import response_of
from headrace.gateway.caller import OPEN, SIGNED_IN, By, Caller, may
from headrace.gateway.errors import Denied, NotFound, TooMany
from headrace.gateway.gateway import Gate, Gateway
from headrace.gateway.jobs_api import Key
from headrace.gateway.listing import Paged, listed

SECOND_US = 1_000_000


Within = Annotated[str, QueryParameter(name="scope")]


class NewRole(msgspec.Struct, forbid_unknown_fields=True):
    """`member` is `user:ada`, `group:vision-team` or `service:vision/airflow`; `scope` the name of a
    department or project, empty for the whole fleet.
    """

    member: str
    role: str
    scope: str = ""


class NewApiToken(msgspec.Struct, forbid_unknown_fields=True):
    """A token of `user` (empty: the asker's own). `digest` is the SHA-256 of it in hex. `scopes`
    (`job.read`, `job.*`, `*.read`) and `projects` narrow it; 0 as `lasts_s` is until it is revoked.
    """

    token: str
    digest: str
    user: str = ""
    name: str = ""
    scopes: list[str] = []
    projects: list[str] = []
    lasts_s: int = 0


@get("/login", summary="Where people sign in", opt=OPEN)
async def entrance(gateway: Gate, request: Request[Any, Any, Any]) -> Entrance:
    """404 when no identity provider is set: then tokens are made by who has one."""
    address = request.client.host if request.client else ""
    if not gateway.limiter.takes(address):
        raise TooMany("too many sign in from this address at once; try again soon")
    provider = gateway.authenticator.provider
    if provider is None:
        raise NotFound("no identity provider is set here; headrace token create makes a token")
    return await provider.entrance()


@get("/me", summary="Who one is here, and with which roles", opt=SIGNED_IN)
async def whoami(by: By) -> Me:
    """With what one's token is narrowed to."""
    subject = by.subject
    return Me(
        user=subject.name,
        via=subject.via.name if subject.via is not None else "",
        roles=[_role_row("", grant) for grant in subject.grants],
        scopes=list(subject.scopes),
        projects=list(subject.projects),
        expires_at_us=by.login.ends_at_us,
    )


@get("/roles", summary="Who has which role where", opt=may("read", "role"))
async def list_roles(
    gateway: Gate, by: By, page: Paged, member: FromQuery[str] = "", within: Within = ""
) -> Response[list[RoleRow]]:
    """Of what one may see; `listed` says that it comes from the document of the scope."""
    rows = [
        row
        for row in _all_roles(gateway)
        if (not member or row.member == member)
        and (not within or row.scope == within)
        and by.may("read", "role", row.scope)
    ]
    return listed(
        rows, RoleRow, page, lambda row: (row.scope, row.member, row.role, int(row.listed))
    )


@post("/roles", summary="Give a role", opt=may("grant", "role"))
async def grant_role(
    gateway: Gate, by: By, data: JSONBody[NewRole], key: Key = ""
) -> Response[Answer]:
    """Until it is revoked."""
    answer = await _change_role(gateway, by, "role.grant", data, key)
    return response_of(answer, created=True)


@delete("/roles", summary="Take a role", status_code=HTTP_200_OK, opt=may("grant", "role"))
async def revoke_role(
    *,
    gateway: Gate,
    by: By,
    member: FromQuery[str],
    role: FromQuery[str],
    within: Within = "",
    key: Key = "",
) -> Response[Answer]:
    """What a document's `members` say is taken by applying it without them."""
    asked = NewRole(member=member, role=role, scope=within)
    return response_of(await _change_role(gateway, by, "role.revoke", asked, key))


@get("/tokens", summary="API tokens, without their secrets", opt=may("read", "token"))
async def list_tokens(
    gateway: Gate, by: By, page: Paged, user: FromQuery[str] = ""
) -> Response[list[TokenRow]]:
    """One's own, and those one may see; the oldest first."""
    tokens = gateway.directory.tokens.values()
    found = [token for token in tokens if not user or token.user == user]
    rows = [_token_row(token) for token in found if _may_token(by, "read", token.user)]
    return listed(rows, TokenRow, page, lambda row: (row.created_at_us, row.token))


@post(
    "/tokens",
    summary="Make an API token of which only you have the secret",
    opt=may("create", "token"),
)
async def create_token(
    gateway: Gate, by: By, data: JSONBody[NewApiToken], key: Key = ""
) -> Response[Answer]:
    """One's own, or that of a service one may change."""
    user = data.user or by.subject.name
    _check_no_wider(gateway, by, data)
    _check_token(by, "create", user)
    body: dict[str, Any] = {**msgspec.structs.asdict(data), "user": user}
    answer = await by.ask("token.create", FLEET, body, key=key)
    return response_of(await gateway.visible(answer), created=True)


@delete(
    "/tokens/{token:str}",
    summary="Take an API token back",
    status_code=HTTP_200_OK,
    opt=may("revoke", "token"),
)
async def revoke_token(
    gateway: Gate, by: By, token: FromPath[str], key: Key = ""
) -> Response[Answer]:
    """By its id. What is open with it is closed."""
    known = gateway.directory.tokens.get(gateway.directory.digests.get(token, ""))
    if known is None or not _may_token(by, "revoke", known.user):
        raise NotFound(f"no token {token} is known (headrace token list)")
    _check_token(by, "revoke", known.user)
    answer = await by.ask("token.revoke", FLEET, {"token": token}, key=key)
    return response_of(await gateway.visible(answer))


async def _change_role(gateway: Gateway, by: Caller, verb: str, asked: NewRole, key: str) -> Answer:
    scope = gateway.scope(asked.scope)
    by.check_giving(Grant(role=asked.role, scope=asked.scope), scope)
    answer = await by.ask(verb, FLEET, msgspec.structs.asdict(asked), key=key)
    return await gateway.visible(answer)


def _check_token(by: Caller, verb: str, user: str) -> None:
    """Raise `Denied` unless it is one's own, one may do so for all, or it is a service's of ours."""
    if _is_ours(by, user):
        by.check(home_of(user), verb="set", noun="service")
    else:
        by.check(WHOLE_FLEET, user, verb=verb, noun="token")


def _may_token(by: Caller, verb: str, user: str) -> bool:
    return _is_ours(by, user) or by.may(verb, "token", WHOLE_FLEET, user)


def _is_ours(by: Caller, user: str) -> bool:
    return is_service(user) and by.may("set", "service", home_of(user))


def _check_no_wider(gateway: Gateway, by: Caller, data: NewApiToken) -> None:
    """Raise `Denied` when the token would be good for more, or longer, than the one shown."""
    if by.login.is_narrowed:
        rule = "a token that is narrowed makes no others"
        raise Denied(Refusal(field="token", rule=rule, instead="use one that is not"))
    left_us = by.login.ends_at_us - gateway.follower.now_us()
    if by.login.token and by.login.ends_at_us and not 0 < data.lasts_s * SECOND_US <= left_us:
        rule = "a token that expires makes none that lasts longer"
        instead = f"at most {max(0, left_us) // SECOND_US} s"
        raise Denied(Refusal(field="lasts_s", value=str(data.lasts_s), rule=rule, instead=instead))


def _all_roles(gateway: Gateway) -> list[RoleRow]:
    directory = gateway.directory
    given = [
        _role_row(member, grant) for member, grants in directory.given.items() for grant in grants
    ]
    in_documents = [
        _role_row(member, grant, listed=True)
        for member, queues in directory.listed.items()
        for grants in queues.values()
        for grant in grants
    ]
    return given + in_documents


def _role_row(member: str, grant: Grant, *, listed: bool = False) -> RoleRow:
    return RoleRow(member=member, role=grant.role, scope=grant.scope, listed=listed)


def _token_row(token: ApiTokenCreated) -> TokenRow:
    fields = msgspec.structs.asdict(token)
    del fields["digest"]
    return TokenRow(**{**fields, "scopes": list(token.scopes), "projects": list(token.projects)})


ROUTES = (
    entrance,
    whoami,
    list_roles,
    grant_role,
    revoke_role,
    list_tokens,
    create_token,
    revoke_token,
)

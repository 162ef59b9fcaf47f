"""People on record and service accounts: who there is.

Rule: a service's name says whose it is, and its route is judged there; no route changes a person
and a service both.
"""

from __future__ import annotations

import msgspec
from litestar import delete, get, put
from litestar.params import FromPath, JSONBody
from litestar.response import Response
from litestar.status_codes import HTTP_200_OK

from headrace.access.names import home_of, is_service, person_refusal, service_of
from headrace.bus.subjects import FLEET
from headrace.client.model import Answer
from headrace.client.people_model import UserRow
from headrace.events.people import Account
from headrace.gateway.answering import response_of
from headrace.gateway.caller import By, Caller, may
from headrace.gateway.errors import BadRequest
from headrace.gateway.gateway import Gate, Gateway
from headrace.gateway.jobs_api import Key
from headrace.gateway.listing import Paged, listed

SERVICE_PATHS = ["/services/{name:str}", "/services/{home:str}/{name:str}"]
OptionalHome = FromPath[str | None]


class Person(msgspec.Struct, forbid_unknown_fields=True):
    """`groups` that a person is in beside those that an identity provider names."""

    groups: list[str] = []


class Service(msgspec.Struct, forbid_unknown_fields=True):
    """A service that `acts_for` people may ask in their names, in what it belongs to."""

    acts_for: bool = False


@get("/users", summary="Users on record", opt=may("read", "user"))
async def list_users(gateway: Gate, by: By, page: Paged) -> Response[list[UserRow]]:
    """In order of name; services only to who may see them."""
    rows = [
        _user_row(name, account)
        for name, account in gateway.directory.users.items()
        if not is_service(name) or by.may("read", "service", home_of(name))
    ]
    return listed(rows, UserRow, page, lambda row: (row.user,))


@put("/users/{user:str}", summary="Make or change a person", opt=may("set", "user"))
async def set_user(
    gateway: Gate, by: By, user: FromPath[str], data: JSONBody[Person], key: Key = ""
) -> Response[Answer]:
    """A person needs to be on record only for groups."""
    by.check()
    _check_person(user)
    return await _set(gateway, by, user, Account(groups=tuple(data.groups)), key)


@delete(
    "/users/{user:str}",
    summary="Let a person in no more",
    status_code=HTTP_200_OK,
    opt=may("set", "user"),
)
async def remove_user(
    gateway: Gate, by: By, user: FromPath[str], key: Key = ""
) -> Response[Answer]:
    """Their tokens and roles go; what an identity provider says of them counts no more."""
    by.check()
    _check_person(user)
    return await _remove(gateway, by, user, key)


@put(SERVICE_PATHS, summary="Make or change a service account", opt=may("set", "service"))
async def set_service(
    *,
    gateway: Gate,
    by: By,
    name: FromPath[str],
    home: OptionalHome = None,
    data: JSONBody[Service],
    key: Key = "",
) -> Response[Answer]:
    """Of the department or project `home`, or without it of the whole fleet. Its name everywhere is
    `service:home/name` (or `service:name`), and only who may set services there makes it.
    """
    by.check(home or "")
    account = Account(acts_for=data.acts_for)
    return await _set(gateway, by, service_of(home or "", name), account, key)


@delete(
    SERVICE_PATHS,
    summary="Let a service account in no more",
    status_code=HTTP_200_OK,
    opt=may("set", "service"),
)
async def remove_service(
    *, gateway: Gate, by: By, name: FromPath[str], home: OptionalHome = None, key: Key = ""
) -> Response[Answer]:
    """Its tokens and roles go."""
    by.check(home or "")
    return await _remove(gateway, by, service_of(home or "", name), key)


async def _set(
    gateway: Gateway, by: Caller, user: str, account: Account, key: str
) -> Response[Answer]:
    body = {"user": user, "account": msgspec.to_builtins(account)}
    answer = await by.ask("user.set", FLEET, body, key=key)
    return response_of(await gateway.visible(answer))


async def _remove(gateway: Gateway, by: Caller, user: str, key: str) -> Response[Answer]:
    answer = await by.ask("user.remove", FLEET, {"user": user}, key=key)
    return response_of(await gateway.visible(answer))


def _check_person(user: str) -> None:
    """Raise `BadRequest` for what cannot be a person's name, so that no service's is changed here."""
    refusal = person_refusal(user)
    if refusal is not None:
        raise BadRequest(refusal.field, refusal.value, refusal.rule)


def _user_row(user: str, account: Account) -> UserRow:
    return UserRow(
        user=user,
        kind="service" if is_service(user) else "person",
        groups=account.groups,
        home=home_of(user),
        acts_for=account.acts_for,
    )


ROUTES = (list_users, set_user, remove_user, set_service, remove_service)

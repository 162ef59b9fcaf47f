"""Lists in pages, in any order, with the fields that are wanted: the same for every list.

Rule: every order ends in what names a row, so that a cursor stays where it is while rows come and go.
Where the next page is stands in the answer's `Link` (RFC 8288), and at which position of the log the
list holds in `Headrace-Position`.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, NamedTuple, TypeVar
from urllib.parse import urlencode

import msgspec
from litestar import Request
from litestar.di import NamedDependency
from litestar.params import QueryParameter, SkipValidation
from litestar.response import Response

from headrace.client.inventory_model import PublisherRow, SecretRow
from headrace.client.model import MAX_PAGE
from headrace.client.protocol import POSITION
from headrace.client.webhook_model import WebhookRow
from headrace.documents.nearest import nearest
from headrace.documents.wording import meant
from headrace.gateway.caller import By, Caller
from headrace.gateway.errors import BadRequest
from headrace.gateway.gateway import Gate
from headrace.gateway.selecting import Fields, selected

Limit = Annotated[int, QueryParameter(ge=1, le=MAX_PAGE)]
Sort = Annotated[str, QueryParameter(description="A field of the rows; - before it: downwards")]
Cursor = Annotated[str, QueryParameter(description="Of the next page, as Link has it")]

SOME = msgspec.Meta(min_length=1)
T = TypeVar("T", bound=msgspec.Struct)
N = TypeVar("N", SecretRow, PublisherRow, WebhookRow)  # what has a name in a project
Order = tuple[Any, ...]


class Page(NamedTuple):
    """Which page of a list is asked for; `here` is its address without the cursor."""

    here: str
    position: int
    limit: int
    sort: str
    cursor: str
    fields: str


def page_of(
    *,
    gateway: Gate,
    by: By,
    request: Request[Any, Any, Any],
    limit: Limit = MAX_PAGE,
    sort: Sort = "",
    cursor: Cursor = "",
    fields: Fields = "",
) -> Page:
    """What the request says of it; after the asker, as the asker comes after the gateway."""
    del by
    query = [(name, text) for name, text in request.query_params.multi_items() if name != "cursor"]
    here = f"{request.url.path}?{urlencode(query)}"
    return Page(here, gateway.projection.position, limit, sort, cursor, fields)


Paged = NamedDependency[SkipValidation[Page]]


def listed(
    rows: Iterable[T], row: type[T], page: Page, order: Callable[[T], Order]
) -> Response[list[T]]:
    """The page of these rows; `order` is theirs unless another is wanted, and names each of them.

    Raises `BadRequest`.
    """
    is_down = page.sort.startswith("-")
    key = _key(row, page.sort.removeprefix("-"), order)
    found = sorted(rows, key=key, reverse=is_down)
    of = f"{row.__name__}.{page.sort}"
    if page.cursor:
        at = _decoded(page.cursor, of)
        try:
            found = [each for each in found if (key(each) < at if is_down else key(each) > at)]
        except TypeError:
            raise _not_ours(page.cursor) from None
    taken = found[: page.limit]
    response: Response[list[T]] = selected(taken, page.fields, row)
    response.headers[POSITION] = str(page.position)
    if len(found) > len(taken):
        cursor = _encoded((of, *key(taken[-1])))
        response.headers["Link"] = f'<{page.here}&cursor={cursor}>; rel="next"'
    return response


def listed_of_projects(
    rows: Iterable[N], row: type[N], by: Caller, page: Page, project: str
) -> Response[list[N]]:
    """The page of those rows that are `project`'s, if one is asked for, and of projects in which the
    asker may do what the route does; in order of project and name.
    """
    by.check_seen(project)
    seen = [each for each in rows if project in ("", each.project) and by.may_here(each.project)]
    return listed(seen, row, page, lambda each: (each.project, each.name))


def is_one_of(field: str, word: str, known: Sequence[str]) -> None:
    """Raise `BadRequest` for a word that a list knows nothing of."""
    if word and word not in known:
        raise BadRequest(field, word, f"is no {field}", meant(word, f"{field}s", known))


def _key(row: type[T], sort: str, order: Callable[[T], Order]) -> Callable[[T], Order]:
    if not sort:
        return order
    if sort not in row.__struct_fields__:
        instead = nearest(sort, row.__struct_fields__) or ", ".join(row.__struct_fields__)
        raise BadRequest("sort", sort, "is no field of a row", instead)

    def key(each: T) -> Order:
        value = getattr(each, sort)
        if not isinstance(value, str | int | None):
            raise BadRequest("sort", sort, "has many values: it is no order")
        return int(value is not None), value if value is not None else 0, *order(each)

    return key


def _encoded(at: Order) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(at)).decode().rstrip("=")


def _decoded(cursor: str, of: str) -> Order:
    try:
        padded = cursor.encode() + b"=" * (-len(cursor) % 4)
        at = base64.b64decode(padded, altchars=b"-_", validate=True)
        found, *order = msgspec.json.decode(at, type=Annotated[list[str | int], SOME])
    except (ValueError, msgspec.DecodeError):
        raise _not_ours(cursor) from None
    if found != of:
        raise _not_ours(cursor)
    return tuple(order)


def _not_ours(cursor: str) -> BadRequest:
    return BadRequest("cursor", cursor, "is no cursor of this list in this order")

"""Of each row of a list only the fields that are wanted.

Rule: a field that a row does not have is refused; one that it has and leaves out is its default.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from litestar.params import QueryParameter
from litestar.response import Response

from headrace.documents.nearest import nearest
from headrace.gateway.errors import BadRequest

Fields = Annotated[
    str, QueryParameter(description="Fields of each row, separated by commas; empty: all")
]


def selected(
    answer: Any, fields: str, row: type[msgspec.Struct], within: str = ""
) -> Response[Any]:
    """The answer, whose rows (in its field `within`, or it is the list) have these fields only.

    Raises `BadRequest`.
    """
    if not fields:
        return Response(answer)
    wanted = [name.strip() for name in fields.split(",")]
    for name in wanted:
        if name not in row.__struct_fields__:
            instead = nearest(name, row.__struct_fields__) or ", ".join(row.__struct_fields__)
            raise BadRequest("fields", name, "is no field of a row", instead)
    rows = getattr(answer, within) if within else answer
    chosen = [msgspec.to_builtins({name: getattr(each, name) for name in wanted}) for each in rows]
    if not within:
        return Response(chosen)
    whole = {name: getattr(answer, name) for name in answer.__struct_fields__}
    return Response(whole | {within: chosen})

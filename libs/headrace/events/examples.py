"""One example of each event, made from its fields: every field set, the same each time."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import inspect

from headrace.events.base import Event

WORDS = {
    "job": "train-7qk2",
    "project": "vision",
    "name": "train",
    "user": "ada",
    "node": "n1",
    "host": "gpubox-1.example",
    "address": "192.0.2.7",
    "device": "GPU-5b1e0c1a-0000-4000-8000-000000000001",
    "model": "H100-80GB",
    "queue": "vision",
    "parent": "research",
    "service": "placement",
    "incarnation": "i-1",
    "boot": "b-1",
    "gainer": "urgent-b0c4",
    "outcome": "failed",
    "reason": "error",
    "change": "cordon",
    "launch_key": "key-1",
}


def example_of(event: type[Event]) -> Event:
    """An event of this type with a value other than the default in every field."""
    info = inspect.type_info(event)
    return msgspec.convert(_sample(info, "") | {"type": event.__struct_config__.tag}, event)


def _sample(info: inspect.Type, name: str) -> Any:
    if isinstance(info, inspect.StructType):
        return {f.name: f.default is not True and _sample(f.type, f.name) for f in info.fields}
    if isinstance(info, inspect.UnionType):  # of something and nothing
        some = next(each for each in info.types if not isinstance(each, inspect.NoneType))
        return _sample(some, name)
    if isinstance(info, inspect.DictType):
        return {"example": _sample(info.value_type, name)}
    if isinstance(info, inspect.VarTupleType | inspect.ListType):
        return [_sample(info.item_type, name.removesuffix("s"))]
    if isinstance(info, inspect.BoolType):
        return True
    if isinstance(info, inspect.IntType):
        return 1 + len(name)
    if isinstance(info, inspect.BytesType):
        return "c2VhbGVk"
    return WORDS.get(name, name.replace("_", "-"))

"""The GPU grammar: `2`, `0.5`, `H100:8`, `A100:80GB:2`, `24GB..80GB:1`, `1g.10gb:1`, or a list.

Rule: parts are separated by `:`, in any order, each at most once: a model, a memory size (a range
with `..`; a lone size is a minimum), a MIG profile, a count. A count below 1 is a share of one GPU;
above 1 it is whole GPUs; of a MIG profile it is whole slices. A list is in order of preference.
"""

from __future__ import annotations

import re
from functools import lru_cache

from headrace.documents.quantities import MILLI, byte_size, is_size, milli, number_text
from headrace.documents.refusing import not_yet, refuse
from headrace.events.asked import Accelerator

GPUS_PER_NODE_MAX = 64
PREFERENCES_MAX = 8
ASKED_MAX = 1_024  # ways of asking that are remembered: most jobs ask for what others did
GRAMMAR = "2, 0.5, H100:8, A100:80GB:2, 24GB..80GB:1, 24GB or 1g.10gb:1"

_MODEL = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,40}")
_MIG = re.compile(r"[0-9]+g\.[0-9]+gb(\+me)?", re.IGNORECASE)
_NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight")

_COUNT_RANGE = re.compile(r"[0-9]*\.\.[0-9]*")


def accelerators(field: str, value: object) -> tuple[Accelerator, ...]:
    """What is asked for per node, in order of preference; empty for no GPU. Raises
    `DocumentError`.
    """
    if not isinstance(value, list):
        one = _accelerator(field, value)
        return (one,) if one.milli else ()
    if not 1 <= len(value) <= PREFERENCES_MAX:
        refuse(field, f"a list of preferences has 1 to {PREFERENCES_MAX} entries")
    found = tuple(_accelerator(f"{field}[{i}]", entry) for i, entry in enumerate(value))
    for i, accelerator in enumerate(found):
        if not accelerator.milli:
            refuse(f"{field}[{i}]", "no GPU is not a preference", value=value[i], instead="gpus: 0")
    return found


def _accelerator(field: str, value: object) -> Accelerator:
    if not isinstance(value, str | int | float):
        refuse(field, "is not an amount of GPUs", value=value, instead=GRAMMAR)
    return _read(field, value)


@lru_cache(ASKED_MAX, typed=True)
def _read(field: str, value: str | float) -> Accelerator:
    text = number_text(value)
    if text is not None:
        return Accelerator(milli=_count(field, value, text))
    if not isinstance(value, str):
        refuse(field, "is not an amount of GPUs", value=value, instead=GRAMMAR)
    parts: dict[str, str] = {}
    for part in value.split(":"):
        kind = _kind_of(field, value, part)
        if kind in parts:
            refuse(field, f"has two parts that are a {kind}", value=value, instead=GRAMMAR)
        parts[kind] = part
    low, high = _bounds(field, value, parts.get("size", ""))
    amount = _count(field, value, parts.get("count", "1"))
    if "profile" in parts:
        _check_slices(field, value, parts, amount)
    return Accelerator(
        milli=amount,
        model=parts.get("model", ""),
        memory_bytes_min=low,
        memory_bytes_max=high,
        profile=parts.get("profile", "").lower(),
    )


def _kind_of(field: str, value: str, part: str) -> str:
    if _MIG.fullmatch(part):
        return "profile"
    if number_text(part) is not None:
        return "count"
    if part and all(not end or is_size(end) for end in part.split("..", 1)):
        return "size"
    if _COUNT_RANGE.fullmatch(part):
        not_yet(field, value=value, instead="an exact number of GPUs")
    if part.lower() in _NUMBERS:  # else it is taken for a model that no node has
        number = str(_NUMBERS.index(part.lower()) + 1)
        rule = "is not an amount of GPUs: numbers are written in digits"
        refuse(field, rule, value=value, instead=value.replace(part, number))
    if not _MODEL.fullmatch(part):
        refuse(field, "is not an amount of GPUs", value=value, instead=GRAMMAR)
    return "model"


def _bounds(field: str, value: str, size: str) -> tuple[int, int]:
    """The marketed sizes in bytes; 0 where there is no bound."""
    if not size:
        return 0, 0
    low, _, high = size.partition("..")
    low_bytes = byte_size(field, low) if low else 0
    high_bytes = byte_size(field, high) if high else 0
    if high_bytes and low_bytes > high_bytes:
        refuse(field, "the range ends before it begins", value=value, instead="24GB..80GB")
    return low_bytes, high_bytes


def _check_slices(field: str, value: str, parts: dict[str, str], amount: int) -> None:
    if "size" in parts:
        rule = "a MIG profile says its memory itself"
        refuse(field, rule, value=value, instead=parts["profile"])
    if amount % MILLI:
        rule = "shares cannot be cut from MIG slices"
        refuse(field, rule, value=value, instead=f"{parts['profile']}:1")


def _count(field: str, value: object, text: str) -> int:
    """Thousandths of GPUs."""
    amount = milli(field, text)
    if amount > MILLI and amount % MILLI:
        rule = "more than one GPU is a number of whole GPUs"
        refuse(field, rule, value=value, instead=f"{amount // MILLI} or {amount // MILLI + 1}")
    if amount > GPUS_PER_NODE_MAX * MILLI:
        refuse(field, f"a node may be asked for at most {GPUS_PER_NODE_MAX} GPUs", value=value)
    return amount

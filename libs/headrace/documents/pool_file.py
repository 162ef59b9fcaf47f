"""Documents of administrators: pools of nodes.

Rule: a pool is the nodes with one label; which those are today is not the document's business.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import ClassVar

import msgspec

from headrace.documents.job_file import Number
from headrace.documents.names import LABEL, level_of, name_of
from headrace.documents.plan import max_duration_us
from headrace.documents.quantities import number_text
from headrace.documents.refusing import refuse
from headrace.documents.shape import Part, Parts, shaped
from headrace.events.base import INTEGER_MAX
from headrace.events.pools import Pool

KIND = "pool"
PLACEMENTS = ("binpack", "spread", "fragmentation-aware")
LEVELS_MAX = 8
PRICES_MAX = 64
PER = "gpu_hour"
MICRO = 1_000_000  # of a currency

_CURRENCY = re.compile(r"[A-Z]{3}")
_MODEL = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,40}")


class NodesWith(Part):
    """Which nodes: those with this label, `pool=train`."""

    label: str = ""


class PoolDocument(Part):
    """A pool. `topology` names the levels of its nodes, the widest first; `price` is by GPU model,
    with its `currency`, per `gpu_hour`.
    """

    parts: ClassVar[Parts] = {"nodes": NodesWith}

    type: str = ""
    name: str = ""
    nodes: NodesWith = msgspec.field(default_factory=NodesWith)
    placement: str = PLACEMENTS[0]
    price: dict[str, Number] = {}
    max_duration: str = ""
    topology: list[str] = []


def pool_of(document: object) -> Pool:
    """The pool that a document describes. Raises `DocumentError`."""
    asked = shaped(document, PoolDocument)
    if asked.placement not in PLACEMENTS:
        rule = "is not a way of placing"
        refuse("placement", rule, value=asked.placement, instead=", ".join(PLACEMENTS))
    label, value = label_of(asked.nodes.label)
    currency, prices = _prices(asked.price)
    return Pool(
        pool=name_of("name", asked.name),
        label=label,
        value=value,
        placement=asked.placement,
        topology=_levels(asked.topology),
        prices=prices,
        currency=currency,
        max_duration_us=max_duration_us(asked.max_duration),
    )


def label_of(text: str, field: str = "nodes") -> tuple[str, str]:
    """A node label and its value, of `label=value`. Raises `DocumentError`."""
    name, equals, value = text.partition("=")
    if not equals or not LABEL.fullmatch(name) or not LABEL.fullmatch(value):
        rule = "must be a label and its value" if text else "must be given"
        instead = f"{field}: {{label: pool=train}}"
        refuse(f"{field}.label", rule, value=text or None, instead=instead)
    return name, value


def _prices(price: Mapping[str, Number]) -> tuple[str, dict[str, int]]:
    """The currency and the millionths of it, by model."""
    if not price:
        return "", {}
    if price.get("per", PER) != PER:
        refuse("price.per", "is not a unit of price", value=price["per"], instead=PER)
    currency = str(price.get("currency", ""))
    if not _CURRENCY.fullmatch(currency):
        rule = "must be the three letters of a currency"
        refuse("price.currency", rule, value=currency or None, instead="EUR")
    models = {name: price[name] for name in price if name not in ("per", "currency")}
    if not 1 <= len(models) <= PRICES_MAX:
        refuse("price", f"has the prices of 1 to {PRICES_MAX} models", instead="H100: 2.10")
    return currency, {name: _micro(name, value) for name, value in models.items()}


def _micro(model: str, value: Number) -> int:
    field = f"price.{model[:60]}"
    if not _MODEL.fullmatch(model):
        refuse(field, "is not the name of a GPU model", instead="H100: 2.10")
    text = number_text(value)
    if text is None:
        refuse(field, "must be a number, not negative", value=value, instead="such as 2.10")
    micro = Fraction(text) * MICRO
    if micro.denominator != 1 or micro >= INTEGER_MAX:
        refuse(field, "must be whole millionths, and not too large", value=value)
    return int(micro)


def _levels(levels: list[str]) -> tuple[str, ...]:
    if len(levels) > LEVELS_MAX:
        refuse("topology", f"has at most {LEVELS_MAX} levels")
    for i, level in enumerate(levels):
        level_of(f"topology[{i}]", level)
        if level in levels[:i]:
            refuse(f"topology[{i}]", "is a level already", value=level)
    return tuple(levels)

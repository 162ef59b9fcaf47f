"""Planted bugs: each breaks one promise, and the simulation must find each of them.

Rule: a mutation changes a host or an agent from outside; the product has no switch for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def none(_host: Any) -> None:
    """No bug."""


def act_before_append(host: Any) -> None:
    """Effects are started from decisions that are not in the log yet."""


PLANTED: dict[str, Callable[[Any], None]] = {"act-before-append": act_before_append}

"""Limits that whoever runs a service may set, and how a refusal names them.

Rule: a limit is a variable of the service's environment with a default, and a refusal says which
one it was and who set it. What a decision depends on is no such limit: it is among the service's
settings, which are in the log.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple


class Limit(NamedTuple):
    """A number, the variable that sets it, and whether it was set."""

    variable: str
    value: int
    is_set: bool

    @property
    def set_by(self) -> str:
        """As a refusal has it in brackets."""
        return f"{self.variable}, {'set for this service' if self.is_set else 'the default'}"


def limit_of(
    variable: str, default: int, environ: Mapping[str, str] | None = None, *, least: int = 1
) -> Limit:
    """The limit as the environment has it. Raises `SystemExit` for what is no such number."""
    given = (os.environ if environ is None else environ).get(variable, "")
    if not given:
        return Limit(variable, default, is_set=False)
    if not given.isdecimal() or not least <= int(given) < 2**53:
        raise SystemExit(f"{variable} = {given} must be a whole number of at least {least}")
    return Limit(variable, int(given), is_set=True)


def settings_of(
    service: str, defaults: Mapping[str, int], environ: Mapping[str, str] | None = None
) -> dict[str, int]:
    """A service's settings: `HEADRACE_ADMISSION_MEMBERS_MAX` sets admission's `members_max`. They
    are recorded when the service begins to lead, and decisions read them from there.
    """
    return {
        name: limit_of(variable_of(service, name), default, environ, least=0).value
        for name, default in defaults.items()
    }


def variable_of(service: str, setting: str) -> str:
    """The variable that sets it."""
    return f"HEADRACE_{service}_{setting}".upper()

"""Fills `${{ … }}` in: the only templating there is.

Rule: what a template names was recorded in clear, so log and key together give exactly what ran. A
name that is not known here stays as it was written; admission refuses it at the door.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from headrace.bus.agents import Launch

_TEMPLATE = re.compile(r"\$\{\{\s*([A-Za-z0-9_.-]+)\s*\}\}")


def values_of(
    job: str, index: int | None, project: str, params: Mapping[str, str]
) -> dict[str, str]:
    """What templates of this job may name, with the values."""
    values = {"job.id": job, "project": project}
    if index is not None:
        values["job.index"] = str(index)
    return values | {f"params.{name}": value for name, value in params.items()}


def filled(launch: Launch, values: Mapping[str, str]) -> Launch:
    """The launch with every known template replaced, once: values are not templates again."""
    return msgspec.structs.replace(
        launch,
        command=tuple(fill(part, values) for part in launch.command),
        setup=tuple(fill(part, values) for part in launch.setup),
        env={name: fill(value, values) for name, value in launch.env.items()},
        workdir=fill(launch.workdir, values),
    )


def fill(text: str, values: Mapping[str, str]) -> str:
    """`text` with every known template replaced."""
    return _TEMPLATE.sub(lambda found: values.get(found[1], found[0]), text)

"""`explain`: what a field of a job file means."""

from __future__ import annotations

import shutil
import textwrap
from argparse import ArgumentParser

from headrace.cli.exits import DONE, USAGE, report

TOP = "job"  # before a field's path, as people write it: job.resources.gpus


def explain_options(parser: ArgumentParser) -> None:
    """The arguments of `explain`."""
    parser.add_argument(
        "field", metavar="FIELD", nargs="?", default="", help="such as resources.gpus; all without"
    )


def explain(*, field: str) -> int:
    """Say what the field means, and which it has below it."""
    from headrace.documents.job_fields import ROLE, TEXTS
    from headrace.documents.nearest import nearest

    path = field.removeprefix(TOP).removeprefix(".")
    first, *rest = path.split(".")
    if first == "roles" and rest:
        path = ".".join((first, ROLE, *rest[1:]))
    below = [name for name in TEXTS if name.startswith(f"{path}." if path else "")]
    shown = [name for name in below if "." not in name[len(path) + bool(path) :]]
    if path and path not in TEXTS and not below:
        near = nearest(path, TEXTS) or nearest(path.rpartition(".")[2], TEXTS)
        meant = f"; did you mean {near}?" if near else " (headrace explain lists all)"
        return report(f"headrace explain: {field} is no field of a job file{meant}", USAGE)
    across = shutil.get_terminal_size().columns
    if path in TEXTS:
        print(f"{path}")
        print(textwrap.fill(TEXTS[path], across, initial_indent="  ", subsequent_indent="  "))
    width = max((len(name) for name in shown), default=0)
    for name in shown:
        lead, hang = f"  {name:<{width}}  ", " " * (width + 4)
        print(textwrap.fill(TEXTS[name], across, initial_indent=lead, subsequent_indent=hang))
    return DONE

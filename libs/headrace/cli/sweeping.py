"""`sweep`: the trials of a sweep in one table, to be compared."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation

from headrace.cli.actions import add_actions
from headrace.cli.arguments import add_connection, add_output, add_watch
from headrace.cli.choosing import HELP
from headrace.cli.exits import DONE, printable
from headrace.cli.output import duration, show, table
from headrace.client.client import Client
from headrace.client.sweep_model import SweepRow, TrialRow

NAMES_MAX = 12  # parameters and metrics that become columns; -o json has all


def sweep_options(parser: ArgumentParser) -> None:
    """The arguments of `sweep`: an action, and its own."""
    about = "its trials: parameters, what they reported, and which is the best"
    shown = add_actions(parser).add_parser("show", help=about, description=f"{about}.")
    shown.add_argument("job", metavar="SWEEP", help=HELP)
    shown.add_argument("--sort", default="", metavar="NAME", help="by this metric or parameter")
    add_output(shown)
    add_watch(shown)
    add_connection(shown)


def sweep(
    *, action: str, job: str, sort: str, output: str, url: str, token: str, project: str
) -> int:
    """Show the trials of a sweep, the best first where they are compared by something."""
    del action, project  # an id says enough
    found = Client.from_config(url=url, token=token).trials(job)
    found.trials = _sorted(found, sort)
    if output in ("json", "yaml"):
        show(found, output)
        return DONE
    params = _names(row.params for row in found.trials)
    reported = _names(row.reported for row in found.trials)
    if found.metric in reported:
        reported = [found.metric, *(name for name in reported if name != found.metric)]
    header = ("TRIAL", "STATE", *params, *reported, "RAN", "WHY")
    rows = [_cells(row, params, reported, best=found.best) for row in found.trials]
    for line in _about(found):
        print(printable(line))
    table(header, rows, wide=output == "wide")
    return DONE


def _about(found: SweepRow) -> list[str]:
    """What is to be known of all of them together."""
    counted: dict[str, int] = {}
    for row in found.trials:
        counted[row.state] = counted.get(row.state, 0) + 1
    states = "  ".join(f"{count} {state}" for state, count in counted.items())
    lines = [f"{found.job}  {found.state}   {len(found.trials)} trials: {states}"]
    best = next((row for row in found.trials if row.trial == found.best), None)
    if best is not None:
        params = "  ".join(f"{name}={value}" for name, value in best.params.items())
        value = best.reported.get(found.metric, "")
        lines.append(f"  best  {best.trial}  {found.metric}={value}   {params}")
    if found.unreported:
        names = ", ".join(_names(row.reported for row in found.trials))
        lines.append(
            f"  no trial has reported {found.metric}, by which they are compared; {names} are"
        )
    return lines


def _cells(row: TrialRow, params: list[str], reported: list[str], *, best: str) -> list[str]:
    name = row.trial.rpartition("/")[2] + (" *" if row.trial == best else "")
    ran = duration(row.ran_us) if row.ran_us else "–"
    said = [row.params.get(each, "") for each in params]
    said += [row.reported.get(each, "–") for each in reported]
    why = row.why or (f"exit {row.exit_code}" if row.exit_code else "")
    return [name, row.state, *said, ran, why]


def _names(rows: Iterable[Iterable[str]]) -> list[str]:
    names: dict[str, None] = {}
    for row in rows:
        names.update(dict.fromkeys(row))
    return list(names)[:NAMES_MAX]


def _sorted(found: SweepRow, sort: str) -> list[TrialRow]:
    """The best first; with a name in its order, numbers as numbers; who has none comes last."""
    name = sort.removeprefix("-") or found.metric
    is_down = sort.startswith("-") if sort else found.goal == "max"

    def key(row: TrialRow) -> tuple[int, Decimal, str]:
        text = row.reported.get(name, row.params.get(name, ""))
        if not text:
            return 2, Decimal(0), ""
        try:
            value = Decimal(text)
        except InvalidOperation:
            return 1, Decimal(0), text
        return (
            (0, value.copy_negate() if is_down else value, "")
            if value.is_finite()
            else (1, Decimal(0), text)
        )

    return sorted(found.trials, key=key) if name else found.trials

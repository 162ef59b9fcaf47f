"""`logs` and `events`: what is going on."""

from __future__ import annotations

import time
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Iterator
from typing import Any

from headrace.cli.arguments import add_connection, add_output, duration_us
from headrace.cli.choosing import add_job, check_job, chosen, say_which
from headrace.cli.exits import DONE, USAGE, printable, report
from headrace.cli.output import clock, columns, show
from headrace.cli.sentences import sentence
from headrace.client.client import Client
from headrace.client.model import ENDED, Description, Happening, LogPiece

TAIL_LINES_MAX = 10_000
TAIL_LINE_BYTES = 1_000  # fetched for each line of a tail: of longer lines there are fewer
PIPED_LENGTH = 160  # of a line where there is no terminal to fit


def logs_options(parser: ArgumentParser) -> None:
    """The arguments of `logs`."""
    add_job(parser)
    parser.add_argument("-f", "--follow", action="store_true", help="until it has ended")
    parser.add_argument("--rank", type=int, help="only this worker")
    parser.add_argument("--role", default="", help="only the workers of this role")
    parser.add_argument("--process", type=int, help="only this process of each worker")
    parser.add_argument("--attempt", type=int, help="the latest by default")
    parser.add_argument(
        "--tail", type=_lines, default=0, metavar="N", help="only the last N lines of each process"
    )
    add_connection(parser)
    add_output(parser)


def _lines(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text[:9]) <= TAIL_LINES_MAX:
        raise ArgumentTypeError(f"{text!r} is no number of lines from 1 to {TAIL_LINES_MAX}")
    return int(text)


def logs(
    *,
    job: str,
    last: bool,
    follow: bool,
    rank: int | None,
    role: str,
    process: int | None,
    attempt: int | None,
    tail: int,
    url: str,
    token: str,
    project: str,
    output: str,
) -> int:
    """Print what a job's workers wrote; several workers' lines say whose they are (`wide`: always).
    JSON is an object a line, as the pieces come.
    """
    from headrace.cli.follow import left_running, say_break

    del project
    check_job("logs", job, is_last=last)
    if tail and follow:
        return report("headrace logs: --tail with --follow: not yet", USAGE)
    client = Client.from_config(url=url, token=token)
    found = client.job(chosen(client, job))
    say_which(job, found.job)
    pieces = client.logs(
        found.job.job,
        rank=rank,
        role=role,
        process=process,
        attempt=attempt,
        follow=follow,
        tail_bytes=tail * TAIL_LINE_BYTES,
        on_break=say_break,
    )
    if tail:
        pieces = _tails(pieces, tail)
    try:
        _print_pieces(pieces, found, follow=follow, output=output)
    except KeyboardInterrupt:
        if not follow or found.job.state in ENDED:
            raise
        return left_running(found.job.job)
    return DONE


def _tails(pieces: Iterator[LogPiece], lines: int) -> Iterator[LogPiece]:
    """Of each process one piece with its last lines."""
    last: dict[tuple[int, int, int], LogPiece] = {}
    for piece in pieces:
        where = (piece.attempt, piece.rank, piece.process)
        if where in last:
            piece.text = last[where].text + piece.text
        last[where] = piece
    for _, piece in sorted(last.items()):
        piece.text = "".join(piece.text.splitlines(keepends=True)[-lines:])
        yield piece


def _print_pieces(
    pieces: Iterator[LogPiece], found: Description, *, follow: bool, output: str
) -> None:
    from headrace.cli.follow import OutputLines, output_lines

    if output == "yaml":
        show(list(pieces), output)
        return
    if output == "json":
        for piece in pieces:
            print(_json(piece), flush=follow)
        return
    lines = output_lines("", found, found.attempts[-1]) if found.attempts else OutputLines("")
    if output == "wide":
        lines = OutputLines(found.job.job, ranks=True, processes=True)
    for piece in pieces:
        lines.add(piece)
    lines.close()


def events_options(parser: ArgumentParser) -> None:
    """The arguments of `events`."""
    parser.add_argument("--job", default="", help="only of this job and its tasks")
    parser.add_argument("--type", default="", help="only types that begin so, such as gang.")
    parser.add_argument("--after", type=int, help="begin after this position")
    parser.add_argument("--since", type=duration_us, default=0, help="begin so long ago: 10m, 2h")
    parser.add_argument("-f", "--follow", action="store_true", help="go on for ever")
    add_connection(parser)
    add_output(parser)


def events(
    *,
    job: str,
    type: str,  # noqa: A002
    after: int | None,
    since: int,
    follow: bool,
    url: str,
    token: str,
    project: str,
    output: str,
) -> int:
    """Print the log, one line an event."""
    from headrace.cli.follow import say_break

    client = Client.from_config(url=url, token=token)
    since_us = time.time_ns() // 1000 - since if since else 0
    found = client.events(
        after=after,
        since_us=since_us,
        job=job,
        project=project,
        type_prefix=type,
        follow=follow,
        on_break=say_break,
    )
    if output == "yaml":
        show(list(found), output)
        return DONE
    for event in found:
        if output == "json":
            print(_json(event), flush=follow)
        else:
            print(line_of(event, wide=output == "wide"), flush=follow)
    return DONE


def line_of(event: Happening, *, wide: bool = False, about: str = "") -> str:
    """`1843  14:03:22.118  hello-7qk2  attempt 1 was given n1`, without the job that all is `about`;
    `wide` the event's type and its fields instead.
    """
    words = "" if wide else sentence(event.type, event.data)
    if words:
        who = str(event.data.get("job") or event.stream)
        told = words if who == about else f"{who}  {words}"
        return _cut(printable(f"{event.position:>7}  {clock(event.at_us)}  {told}"))
    data = {name: value for name, value in event.data.items() if name not in {"job", "project"}}
    text = "  ".join(f"{name}={_short(value)}" for name, value in data.items())
    subject = str(event.data.get("job") or event.stream)
    line = f"{event.position:>7}  {clock(event.at_us)}  {event.type:<23}  {subject}  {text}"
    return printable(line) if wide else _cut(printable(line))


def _cut(line: str) -> str:
    room = columns() or PIPED_LENGTH
    return line if len(line) <= room else f"{line[: room - 1]}…"


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + " ".join(f"{name}:{_short(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + " ".join(_short(each) for each in value) + "]"
    return str(value)


def _json(event: Happening | LogPiece) -> str:
    import msgspec

    return msgspec.json.encode(event).decode()

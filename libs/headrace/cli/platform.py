"""The operator's verbs of a platform on this machine: `up`, `down`, and its `status`.

Rule: imported only when one of them is called, and importable without servers or network drivers.
"""

from __future__ import annotations

import os
import signal
import sys
from argparse import ArgumentParser, BooleanOptionalAction
from dataclasses import dataclass
from pathlib import Path

import msgspec

from headrace.cli.confirmation import add_yes, counted, is_confirmed, named
from headrace.cli.data_folder import data_dir_of, data_dir_option
from headrace.cli.exits import DONE, FAILED, REFUSED, USAGE, printable
from headrace.cli.exits import report as report_line
from headrace.cli.output import show
from headrace.embedded import EmbeddedError, daemon, ending, identity, processes, secrets, settings
from headrace.embedded import status as _status
from headrace.embedded.announcement import announce
from headrace.embedded.durability import check_room
from headrace.embedded.files import write_file
from headrace.embedded.layout import Layout
from headrace.embedded.platform import State, state
from headrace.embedded.processes import Process
from headrace.embedded.services import SERVICES

READY_S_MAX = 180.0  # recovery after a crash included; the platform goes on trying afterwards
DOWN_S_MAX = 180.0
POLL_S = 0.02


def up_options(parser: ArgumentParser) -> None:
    """The arguments of `up`. What is not given is as at the last start."""
    data_dir_option(parser)
    parser.add_argument(
        "--nodes",
        type=int,
        help="how many nodes this machine plays (at first 2, and"
        " none where other machines reach the platform)",
    )
    parser.add_argument(
        "--trust-everybody",
        action=BooleanOptionalAction,
        help="run everybody's jobs also where this machine can isolate none of them from the"
        " platform's keys (at first only yours)",
    )
    parser.add_argument(
        "--gpus", help="the GPUs of each node: auto, or for example simulated:8xH100-80GB"
    )
    parser.add_argument("--listen", metavar="HOST:PORT", help="at first 127.0.0.1:7400")
    parser.add_argument(
        "--metrics-port",
        type=int,
        metavar="PORT",
        help="where the fleet's numbers are for Prometheus, on 127.0.0.1 (at first 7414; 0: any that"
        " is free)",
    )
    parser.add_argument(
        "--bus-port",
        type=int,
        metavar="PORT",
        help="where the bus listens, on the same host (at first 7422; 0: any that is free)",
    )
    parser.add_argument(
        "--tls-self-signed",
        action="store_true",
        help="speak TLS with a certificate made here, which join tokens pin",
    )
    parser.add_argument("--tls-cert", default="", metavar="FILE", help="speak TLS with this (PEM)")
    parser.add_argument("--tls-key", default="", metavar="FILE", help="and its private key (PEM)")
    parser.add_argument(
        "--workspace-domain",
        metavar="DOMAIN",
        help="open workspaces at JOB.DOMAIN, whose names all lead here (at first only on this"
        " machine, at JOB.localhost)",
    )
    parser.add_argument(
        "--moved",
        action="store_true",
        help="the data dir was moved or restored to where it is, and what it was copied from is gone",
    )
    parser.add_argument(
        "--fork",
        action="store_true",
        help="the data dir is a copy: make it a platform of its own, beside the original",
    )
    parser.add_argument(
        "--restored",
        action="store_true",
        help="the log was restored from an older copy: go on from there, with what nodes know",
    )
    parser.add_argument(
        "--rotate",
        action="store_true",
        help="give the roles in your own Postgres new passwords, whoever uses them now",
    )
    parser.add_argument("--detach", action="store_true", help="return once everything is ready")


def up(
    data_dir: Path | None,
    *,
    nodes: int | None,
    trust_everybody: bool | None,
    gpus: str | None,
    listen: str | None,
    metrics_port: int | None,
    bus_port: int | None,
    tls_self_signed: bool,
    tls_cert: str,
    tls_key: str,
    workspace_domain: str | None,
    moved: bool,
    fork: bool,
    restored: bool,
    rotate: bool,
    detach: bool,
) -> int:
    """Start the whole platform on this machine: log, bus, services and nodes."""
    wanted = settings.Wanted(
        nodes=nodes,
        trust_everybody=trust_everybody,
        gpus=gpus,
        listen=listen,
        metrics_port=metrics_port,
        bus_port=bus_port,
        tls_self_signed=tls_self_signed,
        tls_certificate=os.path.abspath(tls_cert) if tls_cert else "",
        tls_key=os.path.abspath(tls_key) if tls_key else "",
        workspace_domain=workspace_domain,
    )
    if moved and fork:
        return report_line("refused: --moved — not beside --fork", REFUSED)
    folder = data_dir_of(data_dir)
    try:
        word = identity.MOVED if moved else identity.FORK if fork else ""
        story = Story(word=word, is_restored=restored, rotate=rotate)
        _up(Layout(folder), wanted, story, detach=detach)
    except EmbeddedError as error:
        return _failed(error)
    except BrokenPipeError:
        raise  # nobody reads what it says
    except OSError as error:
        return _failed(EmbeddedError(f"{error.filename or folder}: {error.strerror}"))
    return DONE


@dataclass(frozen=True)
class Story:
    """What an administrator says of the data dir and its log."""

    word: str
    is_restored: bool
    rotate: bool


def down_options(parser: ArgumentParser) -> None:
    """The arguments of `down`."""
    data_dir_option(parser)
    parser.add_argument(
        "--keep-jobs",
        action=BooleanOptionalAction,
        help="leave running jobs running for the next `up`"
        " (as it is where other machines reach the platform)",
    )
    parser.add_argument(
        "--delete-data", action="store_true", help="remove everything: log, jobs, keys"
    )
    add_yes(parser)


def down(data_dir: Path | None, *, keep_jobs: bool | None, delete_data: bool, yes: bool) -> int:
    """Stop the platform, once it is known what ends with it. Without `delete_data` its data stay, and
    `headrace up` goes on where it was.
    """
    layout = Layout(data_dir_of(data_dir))
    if keep_jobs and delete_data:
        return report_line("headrace down: --keep-jobs is nothing beside --delete-data", USAGE)
    try:
        wanted, is_copy = settings.read(layout), _is_copy(layout, delete_data=delete_data)
        is_kept = wanted.are_jobs_kept if keep_jobs is None else keep_jobs
        is_kept = is_kept and not delete_data
        jobs = [] if is_copy else ending.open_jobs(layout)
        losses = [] if is_kept else _ended(jobs, is_final=delete_data)
        if delete_data:
            losses += _dropped(layout, is_copy=is_copy)
        if not is_confirmed("headrace down", losses, is_sure=yes):
            return FAILED
        if not is_copy:
            _stop(layout, keep_jobs=is_kept)
        if delete_data:
            layout.delete()
    except EmbeddedError as error:
        return _failed(error)
    kept_on = f"    on its nodes {counted(len(jobs), 'job')} left" if is_kept and jobs else ""
    print(f"Headrace is down    data {'deleted' if delete_data else layout.data_dir}{kept_on}")
    return DONE


def _ended(jobs: list[str], *, is_final: bool) -> list[str]:
    """Which jobs `down` ends."""
    if not jobs:
        return []
    then = "" if is_final else "; with the next `up` they start anew, with --keep-jobs they run on"
    return [f"ends {counted(len(jobs), 'job')} on this machine's nodes: {named(jobs)}{then}"]


def _is_copy(layout: Layout, *, delete_data: bool) -> bool:
    """Whether this is a folder that nothing runs from: records in it are those of another. Raises
    `EmbeddedError` unless it is to be deleted.
    """
    try:
        identity.check(layout)
    except EmbeddedError:
        if not delete_data:
            raise
        return True
    return False


def _dropped(layout: Layout, *, is_copy: bool) -> list[str]:
    """What goes with the data. What runs from another folder does not go with its copy."""
    lines = [f"deletes {layout.data_dir} for good: the log, what jobs left behind, all keys"]
    said = state(layout)
    if is_copy or said is None or said.phase != "ready":
        return lines
    from headrace.cli.first_nodes import client_of  # the client is for this only
    from headrace.client import ClientError

    client = client_of(layout, said.url)
    own = settings.read(layout).node_names()
    try:
        status, projects = client.status(), [row.project for row in client.projects()]
        elsewhere = [node.node for node in client.nodes() if node.node not in own]
    except ClientError:
        return lines
    finally:
        client.close()
    live = sum(status.jobs.values())
    lines.append(f"  {status.position} events, {counted(live, 'live job')}, {named(projects)}")
    if elsewhere:
        lines.append(f"  nodes on other machines, which have to join anew: {named(elsewhere)}")
    return lines


def local_status(data_dir: Path, *, check: bool, output: str) -> int:
    """Show every process of the platform on this machine: whether it is ready, for how long, how
    heavy.
    """
    try:
        identity.check(Layout(data_dir))
        report = _status.report(Layout(data_dir))
    except EmbeddedError as error:
        return _failed(error)
    if output in ("json", "yaml"):
        show(report, output)
    else:
        print(_table(report))
    return FAILED if check and (report.notices or not report.ready) else DONE


def _up(layout: Layout, options: settings.Wanted, story: Story, *, detach: bool) -> None:
    if not story.word:
        identity.check(layout)
    layout.create()
    running = state(layout) if not story.word else None
    if running is None:
        check_room(layout.data_dir, is_first=not layout.has_postgres())
        with layout.locked():
            identity.settle(layout, story.word, is_restored=story.is_restored, rotate=story.rotate)
            wanted = settings.settle(layout, options)
            secrets.ensure(layout, SERVICES)
            secrets.certificate(layout, wanted)
        if not detach:
            _become_supervisor(layout)
        process = processes.spawn(
            daemon.command(layout), env=_own_environment(), log=layout.log("up"), umask=-1
        )
    else:
        wanted, process = settings.read(layout), running.process
        if options.is_anything() or story.is_restored or story.rotate:
            raise EmbeddedError(
                "it is up already; headrace down first, to start with other options"
            )
    said = _wait_ready(layout, process)
    from headrace.cli.first_nodes import join_line_of  # the client is for `up` only
    from headrace.cli.first_project import ensure_first_project

    ensure_first_project(layout, said.url)
    print(announce(layout, wanted, said.url, join_line_of(layout, said.url)))


def _become_supervisor(layout: Layout) -> None:
    command = daemon.command(layout, daemon.ANNOUNCE)
    sys.stdout.flush()
    os.execve(command[0], list(command), _own_environment())  # noqa: S606 - ours


def _wait_ready(layout: Layout, process: Process) -> State:
    def decided() -> bool:
        said = state(layout)  # of another supervisor, if somebody else was first
        return said.phase == "ready" if said else not processes.alive(process)

    in_time = processes.wait_until(decided, READY_S_MAX, poll_s=POLL_S)
    said = state(layout)
    if said is not None and said.phase == "ready":
        return said
    if in_time:
        line = _last_line(layout.log("up"))
        _, refused, why = line.partition("refused: ")
        raise EmbeddedError(f"{refused}{why}" if refused else f"it did not start: {line}")
    missing = ", ".join(
        row.name for row in _status.report(layout).processes if row.state != "ready"
    )
    raise EmbeddedError(f"not ready after {READY_S_MAX:.0f} s: {missing} (see {layout.logs})")


def _wish(layout: Layout, *, keep_jobs: bool) -> None:
    """Tell the supervisor, where it would not do so anyway: on a full disk nothing can be told, and a
    platform must be able to end there.
    """
    file = daemon.wish_file(layout)
    file.unlink(missing_ok=True)
    if keep_jobs == settings.read(layout).are_jobs_kept:
        return
    try:
        write_file(file, msgspec.json.encode(daemon.Wish(keep_jobs=keep_jobs)))
    except OSError as error:
        other = "--no-keep-jobs" if keep_jobs else "--keep-jobs"
        raise EmbeddedError(
            f"it cannot be told ({file}: {error.strerror}): make room there, or headrace down {other}"
        ) from None


def _stop(layout: Layout, *, keep_jobs: bool) -> None:
    _wish(layout, keep_jobs=keep_jobs)
    running = state(layout)
    if running is not None:
        processes.send(running.process, signal.SIGTERM)
        if not processes.wait_exit(running.process, DOWN_S_MAX):
            raise EmbeddedError(f"still stopping after {DOWN_S_MAX:.0f} s (see {layout.logs})")
    is_done = running is not None and not layout.state.exists()  # by the supervisor, at its end
    with layout.locked():
        ending.end_everything(layout, keep_jobs=keep_jobs, again=is_done)
        layout.state.unlink(missing_ok=True)


def _own_environment() -> dict[str, str]:
    """Ours, but for what keeps Python from compiling modules once and for all."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return f"{lines[-1] if lines else 'no reason given'} (more in {log})"


def _table(report: _status.Report) -> str:
    lines = [
        f"Headrace is {report.phase}    {report.url or '–'}     data {report.data_dir}",
        *([f"bus {report.bus}"] if report.bus else []),
        *([f"numbers for Prometheus {report.metrics}"] if report.metrics else []),
        f"{'PROCESS':<12} {'STATE':<10} {'PID':>8} {'UP':>8} {'RESTARTS':>8} {'MEMORY':>9}  LOG",
    ]
    lines += [_table_row(row) for row in report.processes]
    lines.append(f"{'together':<49} {_megabytes(report.memory_bytes):>9}")
    lines += [printable(notice) for notice in report.notices]
    return "\n".join(lines)


def _table_row(row: _status.Row) -> str:
    line = (
        f"{row.name:<12} {row.state:<10} {_or_dash(row.pid):>8} {_duration(row.uptime_s):>8}"
        f" {row.restarts:>8} {_megabytes(row.memory_bytes):>9}  {_position(row)}"
    )
    return line.rstrip()


def _position(row: _status.Row) -> str:
    if row.isolation:
        return f"isolation {row.isolation}"
    if row.position is None:
        return ""
    return f"at {row.position}{', leads' if row.leading else ''}"


def _or_dash(value: int | None) -> str:
    return "–" if value is None else str(value)


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:.0f}s"


def _megabytes(memory_bytes: int | None) -> str:
    return "–" if memory_bytes is None else f"{memory_bytes / 1e6:.0f} MB"


def _failed(error: EmbeddedError) -> int:
    message = str(error)
    if message.startswith("refused:"):
        return report_line(message, REFUSED)
    return report_line(f"headrace: {message}", FAILED)

"""`exec`, `attach`, `port-forward` and `open`: into a running job."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import sys
import threading
import time
from argparse import ArgumentParser, ArgumentTypeError
from contextlib import AbstractContextManager
from typing import NamedTuple

from headrace.cli import console
from headrace.cli.arguments import add_connection
from headrace.cli.choosing import HELP
from headrace.cli.exits import DONE, FAILED, INTERRUPTED, report
from headrace.client import ClientError, Unreachable
from headrace.client.client import Client
from headrace.client.session import DATA_BYTES_MAX, Session
from headrace.client.session_model import SessionPiece, Visit

SHELL = ("/bin/sh", "-c", "exec ${SHELL:-/bin/sh} -i")
CONNECTIONS_WAITING_MAX = 64
LONG_S = 3_600.0


def exec_options(parser: ArgumentParser) -> None:
    """The arguments of `exec`."""
    _job_options(parser)
    parser.add_argument(
        "-T", "--no-tty", action="store_true", help="pipes, also where there is a terminal"
    )
    parser.add_argument("command", metavar="-- COMMAND", nargs="*", help="a shell by default")


def exec(  # noqa: A001
    *,
    job: str,
    rank: int,
    no_tty: bool,
    command: list[str],
    url: str,
    token: str,
    project: str,
) -> int:
    """Run a program beside a worker; its exit code."""
    del project
    on_terminal = not no_tty and sys.stdin.isatty() and sys.stdout.isatty()
    size = shutil.get_terminal_size() if on_terminal else os.terminal_size((0, 0))
    visit = Visit(
        way="exec",
        rank=rank,
        command=tuple(command) or SHELL,
        rows=size.lines,
        columns=size.columns,
    )
    session = Client.from_config(url=url, token=token).enter(job, visit)
    with (
        contextlib.closing(session),
        _raw_terminal(session) if on_terminal else contextlib.nullcontext(),
    ):
        threading.Thread(target=_type, args=(session,), daemon=True).start()
        return _show(session)


def attach_options(parser: ArgumentParser) -> None:
    """The arguments of `attach`."""
    _job_options(parser)
    parser.add_argument("--process", type=int, default=0, help="which process of the worker")


def attach(*, job: str, rank: int, process: int, url: str, token: str, project: str) -> int:
    """Show what a worker writes from now on; its exit code when it ends."""
    del project
    visit = Visit(way="attach", rank=rank, process=process)
    session = Client.from_config(url=url, token=token).enter(job, visit)
    try:
        with contextlib.closing(session):
            return _show(session)
    except KeyboardInterrupt:
        return report(f"{job} runs on; headrace cancel {job} ends it", INTERRUPTED)
    except Unreachable as error:
        from headrace.cli.follow import lost

        return lost(job, error)


class Ports(NamedTuple):
    """Where it listens here (0: any free port), and the worker's port."""

    local: int
    remote: int


def port_forward_options(parser: ArgumentParser) -> None:
    """The arguments of `port-forward`."""
    _job_options(parser)
    parser.add_argument(
        "ports", metavar="[LOCAL:]PORT", type=_ports, nargs="+",
        help="the worker's port, and where it is reached here (the same, if that is free)",
    )  # fmt: skip
    parser.add_argument("--address", default="127.0.0.1", help="where to listen here")


def port_forward(
    *,
    job: str,
    rank: int,
    ports: list[Ports],
    address: str,
    url: str,
    token: str,
    project: str,
) -> int:
    """Listen here and carry each connection to the worker, until interrupted."""
    del project
    client = Client.from_config(url=url, token=token)
    found = client.job(job).job.job  # so that a name that means nothing is said at once
    for pair in ports:
        try:
            server = socket.create_server((address, pair.local), backlog=CONNECTIONS_WAITING_MAX)
        except OSError as error:
            line = f"cannot listen at {address}:{pair.local}: {os.strerror(error.errno or 0)}"
            other = f"headrace port-forward {job} 0:{pair.remote} takes any free port"
            return report(f"headrace port-forward: {line}; {other}", FAILED)
        visit = Visit(way="port-forward", rank=rank, port=pair.remote)
        here = f"{address}:{server.getsockname()[1]}"
        print(f"{here} → {found} rank {rank} port {pair.remote}   (Ctrl-C ends it)", flush=True)
        serving = (client, found, visit, server)
        threading.Thread(target=_serve, args=serving, daemon=True).start()
    while True:
        time.sleep(LONG_S)  # which Ctrl-C ends on every system


def open_options(parser: ArgumentParser) -> None:
    """The arguments of `open`."""
    parser.add_argument("job", metavar="JOB", help="a workspace: its id or an unambiguous prefix")
    parser.add_argument("--print", action="store_true", help="only print the address")
    add_connection(parser)


def open(*, job: str, print: bool, url: str, token: str, project: str) -> int:  # noqa: A001, A002
    """Print the address of a workspace, good once and for a minute, and open it in a browser."""
    del project
    address = Client.from_config(url=url, token=token).open(job)
    sys.stdout.write(f"{address}\n")
    sys.stdout.flush()
    if not print:
        import webbrowser

        webbrowser.open(address)
    return DONE


def _job_options(parser: ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", help=HELP)
    parser.add_argument("--rank", type=int, default=0, help="which worker (default 0)")
    add_connection(parser)


def _ports(text: str) -> Ports:
    local, _, remote = text.rpartition(":")
    try:
        ports = Ports(int(local or remote), int(remote))
    except ValueError:
        ports = Ports(-1, -1)
    if not (0 <= ports.local <= 65_535 and 0 < ports.remote <= 65_535):
        raise ArgumentTypeError(f"{text!r} is no pair of ports; 8888 and 9000:8888 are")
    return ports


def _show(session: Session) -> int:
    """Write what comes, as it is, until the end; the exit code."""
    out, err = sys.stdout.buffer, sys.stderr.buffer
    while (piece := session.receive()).kind != "exit":
        stream = err if piece.kind == "error" else out
        stream.write(piece.data)
        stream.flush()
    if piece.data:
        report(piece.data.decode(errors="replace"), piece.value)
    return piece.value


def _type(session: Session) -> None:
    """Send what is typed, then that nothing follows."""
    with contextlib.suppress(Unreachable, OSError):
        while data := os.read(sys.stdin.fileno(), DATA_BYTES_MAX):
            session.send(SessionPiece("data", data))
        session.send(SessionPiece("eof"))


def _raw_terminal(session: Session) -> AbstractContextManager[None]:
    """Every key goes to the program, and so does the window's size."""

    def resized() -> None:
        size = shutil.get_terminal_size()
        with contextlib.suppress(Unreachable):
            session.send(SessionPiece("size", value=(size.lines << 16) + size.columns))

    return console.raw(resized)


def _serve(client: Client, job: str, visit: Visit, server: socket.socket) -> None:
    while True:
        connection, _ = server.accept()
        carried = (client, job, visit, connection)
        threading.Thread(target=_carry, args=carried, daemon=True).start()


def _carry(client: Client, job: str, visit: Visit, connection: socket.socket) -> None:
    """One connection, until either side ends it."""
    with connection:
        try:
            session = client.enter(job, visit)
        except ClientError as error:
            report(f"headrace: {error}", 1)
            return
        with contextlib.closing(session), contextlib.suppress(OSError, Unreachable):
            threading.Thread(target=_send, args=(session, connection), daemon=True).start()
            while (piece := session.receive()).kind != "exit":
                connection.sendall(piece.data)


def _send(session: Session, connection: socket.socket) -> None:
    with contextlib.suppress(OSError, Unreachable):
        while data := connection.recv(DATA_BYTES_MAX):
            session.send(SessionPiece("data", data))
        session.send(SessionPiece("eof"))

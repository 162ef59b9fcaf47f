"""`apply`, `secret`, `erase`: what an administrator sets."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any

from headrace.cli.actions import add_action, add_actions, show_list
from headrace.cli.arguments import add_connection, add_output
from headrace.cli.exits import DONE, REFUSED, USAGE, printable, report
from headrace.cli.output import moment
from headrace.client.client import Client
from headrace.client.errors import Refused
from headrace.client.model import Answer

SECRETS = ("SECRET", "PROJECT", "VERSION", "SET")


def apply_options(parser: ArgumentParser) -> None:
    """The arguments of `apply`."""
    parser.add_argument(
        "-f", "--file", action="append", default=[], help="a file of documents; - is stdin"
    )
    parser.add_argument("files", nargs="*", metavar="FILE", help="documents; - is stdin")
    add_connection(parser)


def apply(*, file: list[str], files: list[str], url: str, token: str, project: str) -> int:
    """Create or change what the documents describe, one after the other; stops at a refusal."""
    del project  # each document names its own
    from headrace.cli.files import documents

    names = [*file, *files]
    if not names:
        return report("headrace apply: which file? (-f FILE)", USAGE)
    client = Client.from_config(url=url, token=token)
    said: list[str] = []
    try:
        for document in (found for name in names for found in documents(name)):
            answer = client.apply(document)
            said.append(_applied(document, answer))
            if answer.secret and answer.change == "created":
                print(
                    f"signed with {answer.secret}   shown once: whoever receives it checks with it"
                )
    except Refused as refused:
        if said:
            print(printable(" · ".join(said)))
        return report(str(refused), REFUSED)
    print(printable(" · ".join(said)))
    return DONE


def _applied(document: dict[str, Any], answer: Answer) -> str:
    """`project vision created`, and the warning when there is one."""
    named = (document.get("type", "document"), answer.name or document.get("name", ""))
    said = f"{' '.join(filter(None, named))} {answer.change or 'applied'}"
    return f"{said} ({answer.warning})" if answer.warning else said


def secret_options(parser: ArgumentParser) -> None:
    """The arguments of `secret`: an action, and its own."""
    actions = add_actions(parser)
    add_output(add_action(actions, "list", "names of secrets; values are shown to nobody"))
    add_action(actions, "set", "set a secret; its value comes from stdin", "name")


def secret(
    *, action: str, url: str, token: str, project: str, output: str = "", name: str = ""
) -> int:
    """List secrets, or set one; its value is read from stdin and shown nowhere."""
    client = Client.from_config(url=url, token=token, project=project)
    if action == "list":
        rows = client.secrets(project)
        cells = [[row.name, row.project, row.version, moment(row.set_at_us)] for row in rows]
        return show_list(rows, SECRETS, cells, output)
    if sys.stdin.isatty():
        from getpass import getpass

        value = getpass(f"value of {name} (not shown): ").encode()
    else:
        value = sys.stdin.buffer.read().removesuffix(b"\n").removesuffix(b"\r")
    if not value:
        return report(f"refused: {name} — a secret has a value; none came from stdin", REFUSED)
    answer = client.set_secret(name, value)
    print(
        printable(f"secret {name} set  project {client.project}  version {answer.version or '–'}")
    )
    return DONE


def erase_options(parser: ArgumentParser) -> None:
    """The arguments of `erase`."""
    parser.add_argument("erased", metavar="PROJECT", help="whose jobs are made unreadable")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
    add_connection(parser)


def erase(*, erased: str, yes: bool, url: str, token: str, project: str) -> int:
    """Drop a project's keys: nobody can read again what its jobs ran. The log stays as it is."""
    del project
    if not yes and not _confirmed(erased):
        return report(
            f"headrace erase: nothing was erased; say --yes, or type {erased} when asked", USAGE
        )
    answer = Client.from_config(url=url, token=token).erase(erased)
    print(printable(f"project {erased} erased at position {answer.position}"))
    return DONE


def _confirmed(project: str) -> bool:
    if not sys.stdin.isatty():
        return False
    print(f"Commands, environments and secrets of {printable(project)} become unreadable for ever.")
    return input(f"Type {printable(project)} to go on: ") == project

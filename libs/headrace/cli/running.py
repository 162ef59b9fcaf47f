"""`run`: a command as a job, followed to its end."""

from __future__ import annotations

import os
import re
from argparse import REMAINDER, ArgumentParser
from pathlib import Path
from typing import Any

from headrace.cli.arguments import add_connection
from headrace.cli.exits import DONE, UNPLACEABLE, USAGE, report
from headrace.cli.submitting import Said, add_said, say_rows, say_submitted
from headrace.client.client import Client

NAME_LENGTH_MAX = 40


def run_options(parser: ArgumentParser) -> None:
    """The arguments of `run`."""
    parser.add_argument("--gpus", help="per node: 2, 0.5, H100:8, 24GB:1")
    parser.add_argument("--gpu-memory", help="this much memory of one GPU, such as 20GB")
    parser.add_argument("--nodes", help="so many workers at once (1)")
    parser.add_argument("--cpu", help="cores per node")
    parser.add_argument("--memory", help="per node, such as 8GB")
    parser.add_argument("-n", "--name", default="", help="the command's own name by default")
    parser.add_argument("--priority", help="very-low … very-high")
    parser.add_argument("--max-duration", help="such as 90s, 15m, 8h")
    parser.add_argument("--per-gpu", action="store_true", help="one process per GPU, with RANK set")
    parser.add_argument(
        "-e", "--env", action="append", default=[], metavar="NAME[=VALUE]",
        help="NAME alone takes the value it has here",
    )  # fmt: skip
    parser.add_argument(
        "--secret", action="append", default=[], metavar="NAME",
        help="give it this secret of the project, as a variable of that name",
    )  # fmt: skip
    parser.add_argument(
        "--template", metavar="TEMPLATE", help="what is not said here is taken from this template"
    )
    parser.add_argument("--image", help="run in a container of this image")
    parser.add_argument("--framework", help="pytorch, jax, tensorflow, mpi, …: its environment")
    parser.add_argument("--setup", help="run this first, once per node")
    parser.add_argument("--pool", action="append", default=[], help="only there; may be repeated")
    parser.add_argument(
        "-v", "--volume", action="append", default=[], metavar="NAME:PATH[:ro]",
        help="show the volume there",
    )  # fmt: skip
    parser.add_argument(
        "--output", action="append", default=[], metavar="PATH", help="keep this when it ends"
    )
    parser.add_argument("--workdir", default="", help="this folder travels with the job")
    parser.add_argument("-d", "--detach", action="store_true", help="do not follow it")
    parser.add_argument(
        "--allow-plain-secret",
        action="store_true",
        help="take environment names that look like credentials",
    )
    add_said(parser, "print what it writes and nothing else; with -d its id")
    add_connection(parser)
    parser.add_argument(
        "command", nargs=REMAINDER, metavar="-- COMMAND …", help="what to run, as it is"
    )


def run(*, url: str, token: str, project: str, detach: bool, said: Said, **given: Any) -> int:
    """Submit the command, follow it, and exit as it does. Ctrl-C leaves it running. What the fleet could
    not hold if it were empty is not followed: that would be for ever.
    """
    command = given["command"][given["command"][:1] == ["--"] :]
    if not command and not given["template"]:
        return report("headrace run: which command? (headrace run --gpus 1 -- COMMAND …)", USAGE)
    client = Client.from_config(url=url, token=token, project=project)
    document = _document(client.project, command, given)
    if given["env"] or given["workdir"] or given["allow_plain_secret"]:
        document = _checked(document, allow_plain_secret=given["allow_plain_secret"])
    answer = client.submit(document)
    if detach or said == "lines":
        say_submitted(client, document, answer, said)
    if detach:
        return DONE
    if answer.warning:
        how = f"headrace attach {answer.job} follows it, headrace cancel {answer.job} ends it"
        return report(f"{answer.job} waits for nodes that could hold it; {how}", UNPLACEABLE)
    from headrace.cli.follow import follow_job

    if said != "json":
        return follow_job(client, answer.job, shows="all" if said == "lines" else "output")
    code = follow_job(client, answer.job, shows="nothing")
    say_rows(client, [answer.job])
    return code


def _document(project: str, command: list[str], given: dict[str, Any]) -> dict[str, Any]:
    """The job file that says the same."""
    resources = {name: given[name] for name in ("gpus", "gpu_memory", "cpu", "memory")}
    document = {
        "name": given["name"] or ("" if given["template"] else _name_of(command[0])),
        "project": project,
        "template": given["template"],
        "command": command,
        "nodes": given["nodes"],
        "resources": {name: value for name, value in resources.items() if value},
        "priority": given["priority"],
        "max_duration": given["max_duration"],
        "processes_per_node": "per-gpu" if given["per_gpu"] else None,
        "env": dict(_variable(word) for word in given["env"]),
        "secrets": given["secret"],
        "image": given["image"],
        "framework": given["framework"],
        "setup": given["setup"],
        "pools": given["pool"],
        "volumes": given["volume"],
        "outputs": given["output"],
        "workdir": given["workdir"],
    }
    return {name: value for name, value in document.items() if value}


def _checked(document: dict[str, Any], *, allow_plain_secret: bool) -> dict[str, Any]:
    """The same with what only this machine knows: its folders and variables. A variable that looks like
    a credential must not leave it, so that all is checked here. What names nothing of this machine is
    checked by the platform alone, in the same words: to load the vocabulary of job files takes longer
    than to be answered.
    """
    from headrace.cli.files import checked, with_folder

    return checked(with_folder(document, Path.cwd()), allow_plain_secret=allow_plain_secret)


def _variable(word: str) -> tuple[str, str | None]:
    name, given, value = word.partition("=")
    return name, value if given else None


def _name_of(command: str) -> str:
    """A job name from a program's: `/usr/bin/Python3.11` is `python3-11`."""
    name = re.sub(r"[^a-z0-9]+", "-", os.path.basename(command).lower()).strip("-")
    return name[:NAME_LENGTH_MAX] or "job"

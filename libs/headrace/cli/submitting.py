"""`submit`."""

from __future__ import annotations

import contextlib
from argparse import ArgumentParser
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from headrace.cli.arguments import add_connection
from headrace.cli.exits import DONE, REFUSED, printable, report
from headrace.client.client import Client
from headrace.client.errors import ClientError, Refused
from headrace.client.model import Answer

if TYPE_CHECKING:
    from headrace.cli.follow import Shows

Said = Literal["lines", "ids", "json", "nothing"]

SOCKET = "HEADRACE_APP_SOCKET"
OPENLY = (
    "  on a node without `loopback` (headrace describe) every job there reaches its TCP port; let it"
    f" listen at ${SOCKET} instead"
)


def submit_options(parser: ArgumentParser) -> None:
    """The arguments of `submit`."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="job files; - is stdin")
    parser.add_argument(
        "--wait", action="store_true", help="until every job has ended; its exit code"
    )
    parser.add_argument("--follow", action="store_true", help="as --wait, and show what it writes")
    parser.add_argument(
        "--from",
        dest="source",
        default="",
        metavar="WORKSPACE",
        help="run with its code as it is there now, or was at its end, its setup, image and volumes, where the job"
        " files say none themselves",
    )
    parser.add_argument(
        "--key", default="", help="idempotency key, so that a repeat is the same job"
    )
    parser.add_argument(
        "--allow-plain-secret",
        action="store_true",
        help="take environment names that look like credentials",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="only say whether the job files are understood; what the platform allows is not asked",
    )
    add_said(parser, "print ids and nothing else")
    add_connection(parser)


def add_said(parser: ArgumentParser, quiet: str) -> None:
    """How it is said what was submitted."""
    parser.add_argument(
        "-q", "--quiet", dest="said", action="store_const", const="ids", default="lines", help=quiet
    )
    parser.add_argument(
        "-o", dest="said", choices=("lines", "json"),
        help="json: an object a job, as it was submitted, or as it ended if that is waited for",
    )  # fmt: skip


def submit(
    *,
    files: list[str],
    wait: bool,
    follow: bool,
    key: str,
    source: str,
    allow_plain_secret: bool,
    dry_run: bool,
    said: Said,
    url: str,
    token: str,
    project: str,
) -> int:
    """Submit every job of the files. Nothing is submitted when one of them cannot be understood."""
    from headrace.cli.files import job_documents

    client = Client.from_config(url=url, token=token, project=project)
    found: list[tuple[str, dict[str, Any]]] = []  # with the file to name, if there are several
    for name in files:
        with _named(of := name if len(files) > 1 else ""):
            documents = job_documents(
                name,
                project=client.project,
                said_project=project,
                allow_plain_secret=allow_plain_secret,
            )
        found += [(of, document) for document in documents]
    if dry_run:
        return _understood(found)
    waits = wait or follow
    with _taken_over(client, [document for _, document in found], source):
        jobs, code = _submitted(client, found, key, "nothing" if said == "json" and waits else said)
    if not waits:
        return code
    code = _followed(
        client, jobs, code, "nothing" if said != "lines" else "all" if follow else "end"
    )
    if said == "json":
        say_rows(client, jobs)
    return code


def _understood(found: list[tuple[str, dict[str, Any]]]) -> int:
    for of, document in found:
        name = f"{of}: {document.get('name') or 'job'}" if of else document.get("name") or "job"
        print(printable(f"{name}  understood, not submitted  project {document['project']}"))
    return DONE


@contextlib.contextmanager
def _named(file: str) -> Iterator[None]:
    """Have a refusal name the file that it is about, if one is given."""
    try:
        yield
    except Refused as refused:
        if not file:
            raise
        raise Refused(
            msgspec.structs.replace(refused.answer, message=f"{refused} ({file})")
        ) from None


def _submitted(
    client: Client, found: list[tuple[str, dict[str, Any]]], key: str, said: Said
) -> tuple[list[str], int]:
    """The ids of the jobs that were accepted, and an exit code."""
    jobs: list[str] = []
    code = DONE
    for number, (of, document) in enumerate(found):
        suffix = f"-{number}" if number else ""
        try:
            with _named(of):
                answer = client.submit(document, key=f"{key}{suffix}" if key else "")
        except Refused as refused:
            code = report(str(refused), REFUSED)
            continue
        jobs.append(answer.job)
        say_submitted(client, document, answer, said)
    return jobs, code


@contextlib.contextmanager
def _taken_over(client: Client, documents: list[dict[str, Any]], source: str) -> Iterator[None]:
    """Let the jobs take over what `source` has: the folder of one that runs as it is now, that of a
    workspace that has ended as it was kept, of others as they were submitted.
    """
    with contextlib.ExitStack() as copies:
        if source:
            row = client.job(source).job
            own = [document for document in documents if not document.get("workdir")]
            has_ended = row.kind == "workspace" and bool(row.ended_at_us) and row.started_at_us
            if own and (has_ended or row.state == "running"):
                from headrace.cli import snapshots

                found = snapshots.kept_of if has_ended else snapshots.snapshot_of
                folder = str(copies.enter_context(found(client, row.job)))
                for document in own:
                    document["workdir"] = folder
            for document in documents:
                document["from"] = row.job
        yield


def _followed(client: Client, jobs: list[str], code: int, shows: Shows) -> int:
    """Each job to its end, in order; the exit code of the last one that had one."""
    from headrace.cli.follow import follow_job

    for job in jobs:
        code = follow_job(client, job, shows=shows) or code
    return code


def say_submitted(client: Client, document: dict[str, Any], answer: Answer, said: Said) -> None:
    """`<id>  submitted  …  project <p>`, and the warning when there is one; or as it is wanted."""
    if said == "ids":
        print(printable(answer.job), flush=True)
    if said == "json":
        project = document.get("project") or client.project
        told = {name: getattr(answer, name) for name in ("position", "key", "warning")}
        print(
            msgspec.json.encode({"job": answer.job, "project": project, **told}).decode(),
            flush=True,
        )
    if said != "lines":
        return
    parts = [answer.job, "submitted", *_shape(client, document, answer.job)]
    project = document.get("project") or client.project
    print(printable(f"{'  '.join(parts)}  project {project}"), flush=True)
    if answer.warning:
        print(printable(f"  {answer.warning}"), flush=True)
    if _listens_openly(document):
        print(OPENLY, flush=True)


def say_rows(client: Client, jobs: list[str]) -> None:
    """How each job ended, an object a line."""
    for job in jobs:
        print(msgspec.json.encode(client.job(job).job).decode(), flush=True)


def _listens_openly(document: dict[str, Any]) -> bool:
    """Whether a workspace's own program is not seen to use the socket that is its alone."""
    app = document.get("app")
    return isinstance(app, dict) and SOCKET not in str(app.get("command", ""))


def _shape(client: Client, document: dict[str, Any], job: str) -> list[str]:
    """What makes it more than one worker: trials, tasks, nodes."""
    if document.get("sweep") or document.get("array"):
        try:
            row = client.job(job).job
        except ClientError:
            return []
        word = "trials" if row.kind == "sweep" else "tasks"
        at_once = f", {row.tasks_parallel} at a time" if row.tasks_parallel else ""
        return [f"{row.tasks} {word}{at_once}"]
    nodes = document.get("nodes", 1)
    if nodes == 1:
        return []
    resources = document.get("resources")
    gpus = resources.get("gpus") if isinstance(resources, dict) else None
    first = gpus[0] if isinstance(gpus, list) and gpus else gpus
    return [f"{nodes} nodes" + (f" × {first}" if first else "")]

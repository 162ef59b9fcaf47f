"""`submit`."""

from __future__ import annotations

import contextlib
from argparse import ArgumentParser
from collections.abc import Iterator
from typing import Any

from headrace.cli.arguments import add_connection
from headrace.cli.exits import DONE, REFUSED, printable, report
from headrace.client.client import Client
from headrace.client.errors import ClientError, Refused
from headrace.client.model import Answer

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
    add_connection(parser)


def submit(
    *,
    files: list[str],
    wait: bool,
    follow: bool,
    key: str,
    source: str,
    allow_plain_secret: bool,
    url: str,
    token: str,
    project: str,
) -> int:
    """Submit every job of the files. Nothing is submitted when one of them cannot be understood."""
    from headrace.cli.files import job_documents

    client = Client.from_config(url=url, token=token, project=project)
    documents = [
        document
        for name in files
        for document in job_documents(
            name,
            project=client.project,
            said_project=project,
            allow_plain_secret=allow_plain_secret,
        )
    ]
    with _taken_over(client, documents, source):
        jobs, code = _submitted(client, documents, key)
    return code if not (wait or follow) else _followed(client, jobs, code, quiet=not follow)


def _submitted(client: Client, documents: list[dict[str, Any]], key: str) -> tuple[list[str], int]:
    """The ids of the jobs that were accepted, and an exit code."""
    jobs: list[str] = []
    code = DONE
    for number, document in enumerate(documents):
        suffix = f"-{number}" if number else ""
        try:
            answer = client.submit(document, key=f"{key}{suffix}" if key else "")
        except Refused as refused:
            code = report(str(refused), REFUSED)
            continue
        jobs.append(answer.job)
        say_submitted(client, document, answer)
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


def _followed(client: Client, jobs: list[str], code: int, *, quiet: bool) -> int:
    """Each job to its end, in order; the exit code of the last one that had one."""
    from headrace.cli.follow import follow_job

    for job in jobs:
        code = follow_job(client, job, quiet=quiet) or code
    return code


def say_submitted(client: Client, document: dict[str, Any], answer: Answer) -> None:
    """`<id>  submitted  …  project <p>`, and the warning when there is one."""
    parts = [answer.job, "submitted", *_shape(client, document, answer.job)]
    project = document.get("project") or client.project
    print(printable(f"{'  '.join(parts)}  project {project}"), flush=True)
    if answer.warning:
        print(printable(f"  {answer.warning}"), flush=True)
    if _listens_openly(document):
        print(OPENLY, flush=True)


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

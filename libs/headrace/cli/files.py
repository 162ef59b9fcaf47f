"""Job files and documents, as they are on disk.

Rule: what is wrong is said here, with the line, before anything is sent; the platform checks again.
What only this machine knows (its folders, its environment) is filled in here.
"""

from __future__ import annotations

import os
import posixpath
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from headrace.cli.exits import DONE, report
from headrace.client.errors import ClientError, Refused
from headrace.client.model import Answer
from headrace.documents import plan, read_fleet, read_job
from headrace.documents.workdir import BUNDLE, GIT
from headrace.documents.yaml_text import Document, parse_documents
from headrace.events import Refusal

STDIN = "-"


def documents(name: str) -> list[dict[str, Any]]:
    """The documents of a file (`-` is stdin). Raises `ClientError`, and `Refused` with the line of
    what is wrong.
    """
    found = _parsed(name)
    for document in found:
        understood = read_fleet(document.fields, document.lines)
        if isinstance(understood, Refusal):
            _refuse(understood)
    return [document.fields for document in found]


def job_documents(
    name: str, *, project: str, said_project: str = "", allow_plain_secret: bool
) -> list[dict[str, Any]]:
    """The job files in a file, complete: with their project, absolute folders and copied variables.

    `said_project` (the flag) wins over a file's own project, which wins over `project`. Raises
    `ClientError`, and `Refused` with the line of what is wrong.
    """
    folder = Path.cwd() if name == STDIN else Path(name).absolute().parent
    found = []
    for document in _parsed(name):
        fields = {"project": project, **document.fields}
        if said_project:
            fields["project"] = said_project
        fields = with_folder(fields, folder)
        found.append(checked(fields, allow_plain_secret=allow_plain_secret, lines=document.lines))
    return found


def with_folder(fields: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The same job file with its working directory seen from `folder`. Raises `Refused` for one that is
    not there.
    """
    if isinstance(fields.get("workdir"), str):
        fields["workdir"] = workdir_from(folder, fields["workdir"])
    return fields


def workdir_from(folder: Path, workdir: str) -> str:
    """What a job file in `folder` means by its `workdir`: a folder here in full, or as it is. An absolute
    one that is not here is the nodes', which is said: only there it is known whether it exists. Raises
    `Refused` for one that could only be here, and is not.
    """
    if not workdir or workdir.startswith((GIT, BUNDLE)):
        return workdir
    here = os.path.normpath(folder / Path(workdir).expanduser())
    if os.path.isdir(here):
        return here
    if not workdir.startswith("/"):
        rule = "is no folder" if os.path.exists(here) else "is not there"
        instead = "one that is here, or /a/folder of the nodes, or git+https://…"
        refusal = Refusal(
            field="workdir", value=workdir, rule=f"{rule} (looked at {here})", instead=instead
        )
        _refuse(refusal)
    report(f"  {workdir} is not on this machine: each node must have it", DONE)
    return posixpath.normpath(workdir)  # also when asked from Windows


def checked(
    fields: dict[str, Any], *, allow_plain_secret: bool = False, lines: Mapping[str, int] = {}
) -> dict[str, Any]:
    """The same job file with the variables that are copied from here, if it can be understood.

    Raises `Refused` with the one line that says what is wrong.
    """
    if allow_plain_secret:
        fields["allow_plain_secret"] = True
    if isinstance(fields.get("env"), Mapping):
        fields["env"] = {name: _value(name, value) for name, value in fields["env"].items()}
    travels = os.path.isdir(str(fields.get("workdir") or ""))  # and is no folder of the nodes
    job = read_job({**fields, "workdir": ""} if travels else fields, lines)
    if isinstance(job, Refusal) or job.template:  # the platform has the rest of it
        understood: object = job
    else:
        understood = plan(job, lines)
    if isinstance(understood, Refusal):
        _refuse(understood)
    return fields


def _parsed(name: str) -> list[Document]:
    found = parse_documents(_read(name))
    if isinstance(found, Refusal):
        _refuse(found, name)
    if not found:
        raise ClientError(f"{name} has no document in it")
    return found


def _read(name: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if name == STDIN else Path(name).read_bytes()
    except OSError as error:
        raise ClientError(f"cannot read {name}: {error.strerror}") from error


def _value(name: str, value: object) -> object:
    """A variable's value; one without a value is copied from this shell."""
    if value is not None:
        return value
    copied = os.environ.get(name)
    if copied is None:
        _refuse(Refusal(field=f"env.{name}", rule="has no value here to copy"))
    return copied


def _refuse(refusal: Refusal, name: str = "") -> NoReturn:
    line = f"{refusal} ({name})" if name else str(refusal)
    raise Refused(Answer(accepted=False, message=line))

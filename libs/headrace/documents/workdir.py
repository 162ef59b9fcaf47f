"""`workdir`: which folder a job works in.

Rule: a folder of somebody's machine travels before the job does, and the job file then names its
content (`sha256:…`); a repository is named with the commit, for a branch is another folder tomorrow;
an absolute path is a folder that the nodes have.
"""

from __future__ import annotations

import re

from headrace.documents.refusing import refuse

LENGTH_MAX = 1_024
BUNDLE = "sha256:"
GIT = "git+"
SCHEMES = ("https", "ssh", "file")  # of a repository; what a node can reach is its own matter

_BUNDLE = re.compile(r"sha256:[0-9a-f]{64}")
_GIT = re.compile(r"git\+([a-z]+)://([^\s@]+@)?([^\s@]+)@(\S*)")
_PYTHON = re.compile(r"3\.[0-9]{1,2}")
_COMMIT = re.compile(r"[0-9a-f]{7,40}")


def workdir_of(value: str) -> str:
    """The folder, if it can be one; empty for none. Raises `DocumentError`."""
    if not value:
        return ""
    if len(value) > LENGTH_MAX or not value.isprintable():
        refuse("workdir", f"has at most {LENGTH_MAX} printable characters", value=value)
    if value.startswith(GIT):
        _check_repository(value)
    elif value.startswith(BUNDLE):
        if not _BUNDLE.fullmatch(value):
            refuse("workdir", "is not the name of a folder's content", value=value)
    elif not value.startswith("/"):
        rule = "a folder travels from the machine where headrace submits it; here it is no folder"
        instead = (
            "headrace submit, git+https://host/repo@<commit>, or an absolute path on the nodes"
        )
        refuse("workdir", rule, value=value, instead=instead)
    return value


def python_of(value: str | float, image: str) -> str:
    """The version of Python that is asked for; empty for none. Raises `DocumentError`."""
    if value and image:
        refuse("python", "a job has either image: or python:", value=value)
    if isinstance(value, float):
        refuse("python", "must be in quotes: 3.10 would be 3.1", value=value, instead='"3.12"')
    if value and not _PYTHON.fullmatch(value):
        refuse("python", "is not a version of Python", value=value, instead='"3.12"')
    return value


def bundle_of(workdir: str) -> str:
    """The name of the content that travels with the job; empty when none does."""
    return workdir.removeprefix(BUNDLE) if workdir.startswith(BUNDLE) else ""


def _check_repository(value: str) -> None:
    found = _GIT.fullmatch(value)
    if found is None or found[1] not in SCHEMES:
        instead = "git+https://host/repo@<commit>"
        refuse("workdir", "is not a repository and a commit", value=value, instead=instead)
    if found[2] and ":" in found[2]:
        rule = "has a password in it, which would be recorded"
        refuse("workdir", rule, instead="secrets:, and a credential helper on the nodes")
    if not _COMMIT.fullmatch(found[4]):
        rule = "must name a commit (7 to 40 of 0-9 a-f): a branch is another folder tomorrow"
        refuse("workdir", rule, value=value, instead="git rev-parse HEAD")

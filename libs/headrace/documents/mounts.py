"""`volumes` and `outputs`: what a worker finds beside its code, and what is kept of what it leaves.

Rule: a volume is `name:/path[:ro]`, what an earlier job left behind `job/<id>:/path`, which is a copy
and read-only at an absolute path. A path without `/` in front is below the working directory; it is
never one that leads out of it. Nothing is put into what is read-only.
"""

from __future__ import annotations

import re

from headrace.documents.names import name_of
from headrace.documents.refusing import refuse
from headrace.events.asked import Mount

MOUNTS_MAX = 64
OUTPUTS_MAX = 64
PATH_LENGTH_MAX = 512
JOB = "job/"
ALL = "."  # of the working directory, where `outputs` says so
ALL_WRITTEN = (ALL, "./")

_JOB_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,62}(/[0-9]{1,9})?")
_SYSTEM = ("/", "/bin", "/dev", "/etc", "/lib", "/lib64", "/proc", "/sbin", "/sys", "/usr", "/run")


def mounts_of(volumes: list[str]) -> tuple[Mount, ...]:
    """What is to be found where. Raises `DocumentError`."""
    if len(volumes) > MOUNTS_MAX:
        refuse("volumes", f"has at most {MOUNTS_MAX}")
    found = tuple(_mount(f"volumes[{i}]", text) for i, text in enumerate(volumes))
    for i, mount in enumerate(found):
        if any(mount.path == other.path for other in found[:i]):
            refuse(f"volumes[{i}]", "something is there already", value=mount.path)
        for around in (each for each in found if mount.path.startswith(f"{each.path}/")):
            if rule := _closed(around):
                instead = f"a place outside {around.path}"
                refuse(f"volumes[{i}]", rule, value=mount.path, instead=instead)
    return found


def outputs_of(outputs: list[str], workdir: str) -> tuple[str, ...]:
    """The paths that are kept, without `/` at their ends; `.` is all of it. Raises `DocumentError`."""
    if outputs and workdir.startswith("/"):
        rule = "are below a working directory of the job's own, which a folder of the nodes is not"
        refuse("outputs", rule, value=outputs[0], instead="write into $HEADRACE_OUTPUT_DIR")
    if len(outputs) > OUTPUTS_MAX:
        refuse("outputs", f"has at most {OUTPUTS_MAX} paths")
    if any(text in ALL_WRITTEN for text in outputs):
        return (ALL,)
    return tuple(_inside(f"outputs[{i}]", text, "model/") for i, text in enumerate(outputs))


def _closed(around: Mount) -> str:
    """Why nothing else can be found in there; empty where it can. Below the working directory a
    volume is a link to the nodes' own folder, and what a job left behind is a copy.
    """
    if around.path.startswith("/"):
        return f"lies in {around.path}, which is read-only" if around.read_only else ""
    return f"lies in {around.path}, which is a volume" if around.volume else ""


def _mount(field: str, text: str) -> Mount:
    what, _, rest = text.partition(":")
    path, _, how = rest.partition(":")
    if not what or not path or how not in ("", "ro", "rw"):
        instead = "datasets:/data:ro, or job/<id>:/inputs"
        refuse(field, "is not name:/path[:ro]", value=text or None, instead=instead)
    where = _absolute(field, path) if path.startswith("/") else _inside(field, path, "/data")
    if not what.startswith(JOB):
        return Mount(volume=name_of(field, what), path=where, read_only=how == "ro")
    job = what.removeprefix(JOB)
    if not _JOB_ID.fullmatch(job):
        refuse(field, "is not a job's id", value=job, instead="job/features-7qk2:/inputs")
    if how == "rw":
        refuse(
            field, "what a job left behind does not change", value=text, instead=f"{what}:{path}"
        )
    return Mount(job=job, path=where, read_only=True)


def _absolute(field: str, path: str) -> str:
    where = "/" + "/".join(_parts(field, path, "/data"))
    if where in _SYSTEM or where.startswith(("/proc/", "/sys/", "/dev/")):
        refuse(field, "is the system's own", value=path, instead="/data")
    return where


def _inside(field: str, path: str, instead: str) -> str:
    if path.startswith("/"):
        refuse(field, "is below the working directory", value=path, instead=instead)
    parts = _parts(field, path, instead)
    if not parts:
        refuse(field, "must name something", value=path or None, instead=instead)
    return "/".join(parts)


def _parts(field: str, path: str, instead: str) -> list[str]:
    if len(path) > PATH_LENGTH_MAX or not path.isprintable():
        refuse(field, f"has at most {PATH_LENGTH_MAX} printable characters", value=path)
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        refuse(field, "must not lead upwards", value=path, instead=instead)
    return parts

"""What a job's setup is on this node, and where its result is kept.

    bundles/<project>/setups/<key>/     venv/, what it wrote into the working directory

Rule: the same key is the same result. It is made of the setup's text and the job's own environment,
the interpreter, the platform, the account, and the files that could matter: those that the text
names, if they say what to install (requirements.txt, pyproject.toml, …), else the whole folder.
What it makes that names the folder it was made in (an editable install, an environment in the working
directory) would be another attempt's there: such a setup runs for each attempt, and nothing is kept.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import platform
import re
import shutil
import sys
from pathlib import Path

import msgspec

from headrace.bundles.laying import Owner
from headrace.bundles.manifest import Manifest, name_of
from headrace.bus.agents import Launch
from headrace.node_agent.programs import SETUP_ENVIRONMENT
from headrace.node_agent.supervision.beneath import remove

DECLARING = (".txt", ".toml", ".lock", ".yml", ".yaml", ".cfg", ".in", ".json")
SETUPS_MAX = 16  # kept of one project, besides those in use
_OF_ONE_FOLDER = re.compile(
    r"\bpip[0-9.]*\b[^\n;&|]*\s(-e|--editable)\b|\bsetup\.py\s+develop\b"
    r"|\b(venv|virtualenv|conda|mamba|micromamba|poetry|pdm|pixi|pipenv)\s"
    r"|\buv\s+(sync|run|venv)\b"
)
VERSIONS = tuple(f"3.{minor}" for minor in range(8, 20))


class Unready(ValueError):
    """There is no such interpreter here; the line says so."""


def is_of_one_folder(setup: tuple[str, ...]) -> bool:
    """Whether what this makes holds only in the folder in which it was made."""
    return bool(_OF_ONE_FOLDER.search(" ".join(setup)))


def interpreters() -> dict[str, str]:
    """The Pythons of this node, by version."""
    found = {}
    for version in VERSIONS:
        path = shutil.which(f"python{version}")
        if path:
            found[version] = path
    found.setdefault("{}.{}".format(*sys.version_info[:2]), sys.executable)
    return found


def setup_of(launch: Launch, code: str, folder: Path, owner: Owner | None) -> dict[str, object]:
    """What the shim is told; see `supervision.setting_up`. Empty when nothing is to be set up.
    `code` is the part of the key that stands for the job's files. Raises `Unready`.
    """
    if not launch.setup and not launch.python:
        return {}
    interpreter = shutil.which("python3") or sys.executable
    if launch.python:
        interpreter = interpreters().get(launch.python, "")
        if not interpreter:
            known = ", ".join(interpreters())
            raise Unready(f"python {launch.python} is not on this node (there is {known})")
    own = {name: value for name, value in launch.env.items() if name not in launch.gang_names}
    key = [
        launch.setup, own, launch.python, os.path.realpath(interpreter), _stamp(interpreter),
        platform.machine(), platform.libc_ver(), owner, code,
    ]  # fmt: skip
    where = str(folder / name_of(msgspec.json.encode(key, order="sorted"))[:32])
    run = [interpreter, "-I", "-c", SETUP_ENVIRONMENT]
    return {
        "command": launch.setup,
        "folder": where,
        "make": [*run, "make", where, *(["isolated"] if launch.python else [])],
        "keep": [*run, "keep", where],
        "lay": [*run, "lay", where],
    }


def environment_of(setup: dict[str, object], path: str) -> dict[str, str]:
    """What the setup and the worker after it have in their environment; `path` is their PATH."""
    if not setup:
        return {}
    venv = f"{setup['folder']}/venv"
    return {"VIRTUAL_ENV": venv, "PATH": f"{venv}/bin:{path}"}


def code_of(setup: tuple[str, ...], manifest: Manifest, tree: str) -> str:
    """What of the folder stands in the key."""
    text = "\n".join(setup)
    words = {word.strip("\"'()[];,").removeprefix("./") for word in text.split()}
    named = [file for file in manifest.files if file.path in words]
    if not named or any(not file.path.endswith(DECLARING) for file in named):
        return tree
    return ",".join(file.digest for file in named)


def tidy(folder: Path, *, before_s: float = 0.0) -> None:
    """Remove what was used longest ago beyond what is kept, and what was not since `before_s`
    (seconds since 1970), unless somebody runs on it.
    """
    used: list[tuple[float, Path]] = []
    for path in folder.glob("*.lock"):
        with contextlib.suppress(OSError):
            used.append((path.stat().st_mtime, path))
    for number, (used_s, lock) in enumerate(sorted(used, reverse=True)):
        if number < SETUPS_MAX and used_s >= before_s:
            continue
        with contextlib.suppress(OSError), lock.open("r+") as held:
            fcntl.lockf(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held.truncate(0)  # whoever has opened it finds that nothing is prepared
            remove(lock.with_suffix(""))
            lock.unlink()


def _stamp(interpreter: str) -> list[int]:
    about = os.stat(os.path.realpath(interpreter))
    return [about.st_size, about.st_mtime_ns]

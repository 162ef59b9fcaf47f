"""Names the code that decides, so that a decision is only ever compared with its own code's.

Rule: one digest over everything a decision can depend on: the pure packages, every registered
service's `decide` and what it imports of its own package, and Python's minor version. Read once, at
process start; no part of any decision.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from headrace.decider import Decider

GROUP = "headrace.deciders"  # the entry points under which services register their `Decider`
PURE_PACKAGES = ("access", "events", "decider", "documents", "scheduling")
NOT_DECIDING = (  # tools around them
    "examples.py",
    "export.py",
    "testing.py",
    "version.py",
)


@functools.cache
def decision_version() -> str:
    """The digest of the installed deciding code: 32 hex digits."""
    digest = hashlib.sha256(f"python {sys.version_info.major}.{sys.version_info.minor}".encode())
    for name, path in sorted(deciding_files().items()):
        digest.update(name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:32]


def installed_deciders() -> dict[str, Decider[Any]]:
    """Every registered service's decider, by service. Raises `ImportError`, naming what is missing."""
    found = {point.name: point.load() for point in entry_points(group=GROUP)}
    return {name: found[name] for name in sorted(found)}


def deciding_files() -> dict[str, Path]:
    """Every file that decisions depend on, by its place in the package."""
    files: dict[str, Path] = {}
    for package in PURE_PACKAGES:
        for folder in _folders(f"headrace.{package}"):
            for path in folder.rglob("*.py"):
                if path.name not in NOT_DECIDING:
                    files[f"{package}/{path.relative_to(folder).as_posix()}"] = path
    for point in entry_points(group=GROUP):
        package = point.module.rpartition(".")[0]
        for folder in _folders(package):
            for path in pure_modules(folder, package):
                files[f"{package}/{path.relative_to(folder).as_posix()}"] = path
    return files


def pure_modules(folder: Path, package: str) -> set[Path]:
    """What a service's `decide` consists of: it, its state, its rules, and what they import of
    their own package.
    """
    starts = [folder / "decide.py", folder / "state.py", *folder.rglob("*rules.py")]
    found: set[Path] = set()
    while starts:
        path = starts.pop()
        if path in found or not path.exists():
            continue
        found.add(path)
        for node in ast.walk(ast.parse(path.read_bytes())):
            module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
            if isinstance(node, ast.ImportFrom) and f"{module}.".startswith(f"{package}."):
                place = folder.joinpath(*module.removeprefix(package).split("."))
                starts.append(place.with_suffix(".py"))
                starts.extend(place / f"{alias.name}.py" for alias in node.names)
    return found


def _folders(package: str) -> list[Path]:
    spec = importlib.util.find_spec(package)
    places = spec.submodule_search_locations if spec is not None else None
    return [Path(place) for place in places or ()]

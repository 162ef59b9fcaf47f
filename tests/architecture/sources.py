"""Finds the project's own Python files and parses each of them once."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

ROOT = Path(__file__).parents[2]
SERVICES = ROOT / "services" / "headrace"
PURE_PACKAGES = ("access", "events", "decider", "documents", "scheduling")  # of libs/headrace


def production_files() -> list[Path]:
    """What is installed."""
    return sorted([*(ROOT / "libs").rglob("*.py"), *SERVICES.rglob("*.py")])


def all_files() -> list[Path]:
    """What is installed, its tests, and the examples."""
    others = [*(ROOT / "tests").rglob("*.py"), *(ROOT / "examples").rglob("*.py")]
    return sorted([*production_files(), *others])


def pure_files() -> list[Path]:
    """Where decisions are made: the pure packages, and each service's own pure modules."""
    libs = [f for name in PURE_PACKAGES for f in (ROOT / "libs/headrace" / name).rglob("*.py")]
    services = [f for name in service_names() for f in _pure_modules(SERVICES / name)]
    return sorted([*libs, *services])


def _pure_modules(service: Path) -> set[Path]:
    """What a service's `decide` consists of: it, its state, its rules, and what they import."""
    starts = [service / "decide.py", service / "state.py", *service.rglob("*rules.py")]
    found: set[Path] = set()
    while starts:
        path = starts.pop()
        if path.exists() and path not in found:
            found.add(path)
            starts.extend(_imported(path, service))
    return found


def _imported(path: Path, service: Path) -> list[Path]:
    """The modules of the same service that the file imports."""
    package, files = f"headrace.{service.name}", []
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(package):
            module = (node.module or "").removeprefix(package).replace(".", "/")
            files.append(Path(f"{service}{module}.py"))
            files.extend(Path(f"{service}{module}") / f"{a.name}.py" for a in node.names)
    return files


def service_names() -> list[str]:
    """The folder of each service."""
    return sorted(f.name for f in SERVICES.iterdir() if f.is_dir() and any(f.glob("*.py")))


def name_of(path: Path) -> str:
    """The path from the project's root, for messages and tables."""
    return path.relative_to(ROOT).as_posix()


@functools.cache
def tree_of(path: Path) -> ast.Module:
    """The parsed file."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))

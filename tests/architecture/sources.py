"""Finds the project's own Python files and parses each of them once."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

ROOT = Path(__file__).parents[2]
SERVICES = ROOT / "services" / "headrace"
PURE_PACKAGES = ("events", "decider", "documents", "scheduling")  # of libs/headrace


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
    services = [f for f in SERVICES.rglob("*.py") if is_pure_service_module(f)]
    return sorted([*libs, *services])


def is_pure_service_module(path: Path) -> bool:
    """Whether a service's module is one that `decide` and `evolve` live in."""
    return path.stem in {"state", "decide"} or path.stem.endswith("rules")


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

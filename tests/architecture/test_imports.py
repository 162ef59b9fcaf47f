"""Who may import whom, held by import-linter, and what a process loads at all."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.architecture import sources

SETTINGS = tomllib.loads((sources.ROOT / "pyproject.toml").read_text())
CONTRACTS = {c["id"]: c for c in SETTINGS["tool"]["importlinter"]["contracts"]}


def _modules_after(statement: str) -> set[str]:
    program = f"{statement}\nimport sys\nprint(*sorted(sys.modules))"
    environment = {
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": f"{sources.ROOT}/libs:{sources.ROOT}/services",
    }
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment
    )
    assert run.returncode == 0, run.stderr
    return set(run.stdout.split())


def test_every_import_contract_is_kept() -> None:
    linter = Path(sys.executable).with_name("lint-imports")

    run = subprocess.run(
        [linter, "--no-cache", "--no-logo"], capture_output=True, text=True, cwd=sources.ROOT
    )

    assert run.returncode == 0, run.stdout + run.stderr


def test_the_contract_names_every_service() -> None:
    top = {name.strip() for name in CONTRACTS["layers"]["layers"][0].split("|")}

    assert top == {f"headrace.{name}" for name in [*sources.service_names(), "cli", "testing"]}


def test_the_contract_names_every_library() -> None:
    layers = "|".join(CONTRACTS["layers"]["layers"]).split("|")
    named = {name.strip().removeprefix("headrace.") for name in layers}
    folders = {
        folder.name
        for folder in (sources.ROOT / "libs/headrace").iterdir()
        if any(folder.glob("*.py"))
    }

    assert folders - named == set()


def test_every_deciding_service_is_registered() -> None:
    registered = SETTINGS["project"]["entry-points"]["headrace.deciders"]
    deciding = [n for n in sources.service_names() if (sources.SERVICES / n / "decide.py").exists()]

    assert registered == {name: f"headrace.{name}.decide:DECIDER" for name in deciding}


@pytest.mark.parametrize("driver", ["nats", "asyncpg", "litestar", "opentelemetry.sdk", "numpy"])
def test_the_command_line_loads_no_driver(driver: str) -> None:
    assert driver not in _modules_after("import headrace.cli.__main__")


@pytest.mark.parametrize("name", ["admission", "quota", "placement", "metrics"])
def test_a_service_loads_nothing_that_it_does_not_use(name: str) -> None:
    program = f"import importlib; importlib.import_module('headrace.{name}.__main__')"

    loaded = _modules_after(f"{program}\nfrom headrace import telemetry\ntelemetry.start('{name}')")

    assert {"opentelemetry.sdk", "opentelemetry.trace", "numpy", "aiohttp"} & loaded == set()

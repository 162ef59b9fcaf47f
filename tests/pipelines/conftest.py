"""A platform, the tools that people connect to it with, and a service account that acts for ada."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.end_to_end.conftest import new_platform, platform

__all__ = ["new_platform", "platform"]

ROOT = Path(__file__).parents[2]
AIRFLOW = Path(os.environ.get("HEADRACE_AIRFLOW", "")) / "bin"
PREFECT = Path(os.environ.get("HEADRACE_PREFECT", "")) / "bin"
GENERATORS = Path(os.environ.get("HEADRACE_GENERATORS", "")) / "bin"


@pytest.fixture(scope="session")
def environment(platform, tmp_path_factory):
    """What a pipeline of project `default` is told, which asks for `ada`."""
    platform.wait_ready()
    platform.headrace("user", "set", "ada")
    platform.headrace("role", "grant", "user:ada", "researcher", "--in", "default")
    platform.headrace("user", "set", "flows", "--service", "--acts-for", "-p", "default")
    service = "service:default/flows"
    platform.headrace("role", "grant", service, "researcher", "--in", "default")
    made = platform.headrace(
        "token", "create", "--user", service, "--name", "flows", "--expires", "1d", "-p", "default"
    )
    token = made.stdout.split()[0]
    home = tmp_path_factory.mktemp("pipelines")
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": str(home),
        "PYTHONPATH": str(ROOT / "libs"),
        "HEADRACE_URL": platform.url,
        "HEADRACE_TOKEN": token,
        "HEADRACE_PROJECT": "default",
        "HEADRACE_PERSON": "ada",
    }

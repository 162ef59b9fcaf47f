"""A platform whose workspaces are opened as people do."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.end_to_end.conftest import Platform, new_platform, platform

__all__ = ["new_platform", "platform", "submitted"]

APPLICATIONS = Path(os.environ.get("HEADRACE_WORKSPACE_APPS", "")) / "bin"

Submit = Callable[..., str]


@pytest.fixture
def submitted(platform: Platform, tmp_path: Path) -> Iterator[Submit]:
    """Submits a workspace, and says at which address it is opened once it runs."""
    jobs: list[str] = []

    def submit(name: str, text: str) -> str:
        path = tmp_path / f"{name}.yaml"
        path.write_text(f"type: workspace\nname: {name}\nworkdir: {tmp_path}\n{text}")
        job = platform.headrace("submit", str(path)).stdout.split()[0]
        jobs.append(job)
        platform.wait(
            lambda: platform.json("describe", job)["job"]["state"] == "running", "it to run"
        )
        address = platform.headrace("open", job, "--print").stdout.strip()
        assert urlsplit(address).hostname == f"{job}.localhost"
        return address

    platform.wait_ready()
    yield submit
    for job in jobs:
        platform.headrace("cancel", job, "--yes", check=False)

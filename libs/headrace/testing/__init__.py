"""A platform for a pipeline's own tests: `pip install headrace[platform] pytest`, and in conftest.py

    from headrace.testing import platform

Then a test that takes `platform` has a whole one, with real servers and simulated GPUs:

    def test_the_nightly_job_is_taken(platform):
        job = platform.client().submit({"name": "etl", "command": ["true"]}).job
        assert platform.ended(job).state == "succeeded"
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace.testing.running import RunningPlatform, started_platform

__all__ = ["RunningPlatform", "platform", "started_platform"]


@pytest.fixture(scope="session")
def platform() -> Iterator[RunningPlatform]:
    """One node of eight simulated GPUs, for the whole run; it and its data are gone afterwards."""
    with started_platform("--nodes", "1", "--gpus", "simulated:8xH100-80GB") as started:
        yield started

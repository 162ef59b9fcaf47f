"""The command line as Windows' Python runs it, under Wine, and a platform for it here."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.testing import RunningPlatform, platform

__all__ = ["platform", "windows", "wine"]

WINDOWS = Path(os.environ.get("HEADRACE_WINDOWS", ""))  # `tests.windows.install` filled it
WINE = "/usr/lib/wine"  # Debian's
RUN_S_MAX = 60.0
PREFIX_S_MAX = 120.0

Run = Callable[..., subprocess.CompletedProcess[bytes]]


@pytest.fixture(scope="session")
def wine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """`wine(*words)` runs Windows' Python in a home of the run's own."""
    env = {
        **{name: value for name, value in os.environ.items() if name != "DISPLAY"},
        "WINEPREFIX": str(tmp_path_factory.mktemp("wine")),
        "WINEDEBUG": "-all",
        "WINEDLLOVERRIDES": "mscoree,mshtml=",  # nobody is asked to install them
    }

    def run(*words, stdin=b"", cwd=None, timeout_s=RUN_S_MAX, **more):
        command = [f"{WINE}/wine64", str(WINDOWS / "python.exe"), *words]
        return subprocess.run(
            command, input=stdin, capture_output=True, cwd=cwd, env={**env, **more},
            timeout=timeout_s, check=False,
        )  # fmt: skip

    # What Windows starts by itself stays, and holds none of the pipes of what the tests run.
    subprocess.run([f"{WINE}/wineserver", "--persistent"], env=env, check=True)
    boot = [f"{WINE}/wine64", "wineboot", "--init"]
    quiet = {
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.DEVNULL,
    }
    subprocess.run(boot, env=env, timeout=PREFIX_S_MAX, check=True, **quiet)
    yield run
    subprocess.run([f"{WINE}/wineserver", "--kill"], env=env, check=False)


@pytest.fixture(scope="session")
def windows(wine: Run, platform: RunningPlatform) -> Run:
    """`windows(*words)` runs the command line, which has signed in on the platform."""

    def headrace(*words, **how):
        return wine("-m", "headrace.cli", *words, **how)

    signed_in = headrace("login", platform.url, "--token", platform.token, "--context", "there")
    assert signed_in.returncode == 0, signed_in.stderr
    return headrace

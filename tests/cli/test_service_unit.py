"""The unit that lets systemd run a node's agent: what is written, what systemctl is told."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.cli import service_unit

WITH_SPACES = Path('/srv/the node\'s "50%" disk')


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """A machine whose systemctl does this, and notes what it was told."""
    monkeypatch.setattr(service_unit, "UNIT_FILE", tmp_path / service_unit.UNIT)
    monkeypatch.setattr(service_unit, "LOCAL", tmp_path / "etc" / "node.local")

    def made(script: str) -> Path:
        (tmp_path / "bin").mkdir()
        program = tmp_path / "bin" / "systemctl"
        program.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/told\n{script}\n')
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
        return tmp_path

    return made


def test_the_service_is_written_then_enabled_and_started(host: Callable[[str], Path]) -> None:
    folder = host("exit 0")

    said = service_unit.install(Path("/srv/node"), {"HEADRACE_NODE_LABELS": "site=a b,rack=r'1"})

    assert (folder / "told").read_text().splitlines() == [
        "daemon-reload", "enable --now headrace-node.service",
    ]  # fmt: skip
    unit = (folder / service_unit.UNIT).read_text()
    assert "Environment=HEADRACE_NODE_DIR=/srv/node HEADRACE_RUN_DIR=" in unit
    assert f"ExecStart={sys.executable} -m headrace.node_agent" in unit
    chosen = (folder / "etc" / "node.local").read_text()
    assert chosen == 'HEADRACE_NODE_LABELS="site=a b,rack=r\'1"\n'
    assert said.startswith("headrace-node.service runs")


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo; echo no bus >&2; exit 1", "systemctl daemon-reload failed: no bus"),
        ("exit 1", "systemctl daemon-reload failed: no reason given"),
    ],
)
def test_a_systemctl_that_fails_is_said_in_one_line(
    host: Callable[[str], Path], script: str, why: str
) -> None:
    host(script)
    with pytest.raises(service_unit.ServiceError, match=f"is written, but {why}$"):
        service_unit.install(Path("/srv/node"), {})


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd-analyze here")
def test_systemd_understands_a_folder_of_any_name(tmp_path: Path) -> None:
    unit = tmp_path / service_unit.UNIT
    unit.write_text(service_unit.text(WITH_SPACES))

    done = subprocess.run(
        ["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    (line,) = (line for line in unit.read_text().splitlines() if line.startswith("Environment="))
    assert '"HEADRACE_NODE_DIR=/srv/the node\'s \\"50%%\\" disk"' in line

"""A process that steps back is behind the others by as much as it says, and no other is."""

import subprocess
import sys

import pytest

from headrace.runtime import stepping_back

PROGRAM = """
import os
from headrace.runtime.stepping_back import step_back
before = os.nice(0)
step_back({niceness})
print(os.nice(0) - before)
"""


@pytest.mark.parametrize("niceness", [0, 5])
def test_a_process_lets_others_go_first(niceness):
    program = PROGRAM.format(niceness=niceness)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert int(done.stdout) == niceness


def test_its_session_steps_back_with_it(tmp_path, monkeypatch):
    session, nicer = tmp_path / "autogroup", []
    monkeypatch.setattr(stepping_back, "_SESSION", session)
    monkeypatch.setattr("os.nice", nicer.append)
    stepping_back.step_back(7)
    assert (nicer, session.read_text()) == ([7], "7")

"""The command line where nobody can be told what it has to say."""

import errno
import os
import subprocess
import sys

import pytest

DEADLINE_S = 60
FULL = "headrace: cannot write its output: No space left on device\n"


def spoken(*words, **given):
    program = [sys.executable, "-m", "headrace.cli", *words]
    env = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "HEADRACE_URL": "http://127.0.0.1:9",
        "XDG_CONFIG_HOME": "/nonexistent",
    }
    return subprocess.run(
        program, env=env, stderr=subprocess.PIPE, text=True, timeout=DEADLINE_S, **given
    )


@pytest.mark.parametrize("words", [["--version"], ["ps", "--help"]])
def test_a_full_disk_is_one_line(words):
    with open("/dev/full", "w") as full:
        ended = spoken(*words, stdout=full)
    assert (ended.returncode, ended.stderr) == (1, FULL)


@pytest.mark.parametrize("words", [["context", "list", "-o", "json"], ["--version"]])
def test_a_closed_output_is_not_written_to_and_that_is_all(words):
    ended = spoken(*words, preexec_fn=lambda: os.close(1))
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_closed_input_is_an_empty_one():
    ended = spoken("submit", "-", preexec_fn=lambda: os.close(0))
    assert (ended.returncode, ended.stderr) == (1, "headrace: - has no document in it\n")


def test_an_output_that_cannot_be_written_to_is_one_line():
    with open(os.devnull) as only_read:
        ended = spoken("--version", stdout=only_read)
    line = f"headrace: cannot write its output: {os.strerror(errno.EBADF)}\n"
    assert (ended.returncode, ended.stderr) == (1, line)

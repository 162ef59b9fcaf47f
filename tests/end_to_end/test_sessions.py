"""Into a running job, from the command line through the gateway to the node and back."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

SERVER = (
    "import http.server as h; s = h.HTTPServer(('127.0.0.1', 0), h.SimpleHTTPRequestHandler); "
    "print(s.server_port, flush=True); s.serve_forever()"
)


@pytest.fixture(scope="module")
def job(platform) -> Iterator[str]:
    """A job that serves HTTP at the port that it prints."""
    platform.wait_ready()
    submitted = platform.headrace("run", "--gpus", "1", "--detach", "--", "python3", "-c", SERVER)
    name = submitted.stdout.split()[0]
    platform.wait(lambda: printed(platform, name), "the job's port")
    yield name
    platform.headrace("cancel", name)


def printed(platform, name: str) -> str:
    return platform.headrace("logs", name).stdout.strip()


def test_a_program_runs_beside_the_worker_and_its_exit_code_is_ours(platform, job):
    script = 'cat; echo "$HEADRACE_JOB_ID" >&2; exit 7'
    words = ("exec", job, "--", "sh", "-c", script)
    done = platform.headrace(*words, check=False, stdin="typed\n")
    assert (done.returncode, done.stdout, done.stderr) == (7, "typed\n", f"{job}\n")


def test_on_a_terminal_the_program_has_one_too(platform, job):
    near, far = pty.openpty()
    command = [sys.executable, "-m", "headrace.cli", "exec", job]
    with subprocess.Popen(command, env=platform.env, stdin=far, stdout=far, stderr=far) as shell:
        os.close(far)
        os.write(near, b"echo $((6 * 7)); tty; exit 3\n")
        said = b""
        with contextlib.suppress(OSError):  # the far end is closed
            while chunk := os.read(near, 4096):
                said += chunk
        assert shell.wait(60) == 3
    os.close(near)
    assert b"42\r\n/dev/pts/" in said


def test_a_port_of_the_worker_is_reached_from_here(platform, job):
    port = platform.headrace("logs", job).stdout.split()[-1]
    command = [sys.executable, "-m", "headrace.cli", "port-forward", job, f"0:{port}"]
    with subprocess.Popen(command, env=platform.env, stdout=subprocess.PIPE, text=True) as carrier:
        assert carrier.stdout is not None
        here = re.match(r"127\.0\.0\.1:(\d+) → ", carrier.stdout.readline())
        assert here is not None
        for _ in range(2):
            with socket.create_connection(("127.0.0.1", int(here[1])), timeout=60) as connection:
                connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
                assert connection.makefile("rb").readline().startswith(b"HTTP/1.0 200")
        carrier.terminate()


def test_there_is_no_way_into_a_job_that_has_ended(platform):
    done = platform.headrace("run", "--gpus", "1", "--", "true")
    name = done.stdout.split()[0]
    refused = platform.headrace("exec", name, "--", "true", check=False)
    assert refused.returncode == 120
    assert refused.stderr == f"refused: job = {name} — does not run: it is succeeded\n"

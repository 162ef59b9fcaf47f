"""The disk with the log is full: submissions are answered 503 with the reason, and all goes on when there
is room, without anybody's help. Who wants to end the platform meanwhile can.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import subprocess
import sys
import urllib.request
import uuid
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from urllib.error import HTTPError

import pytest
from tests.end_to_end.conftest import Platform
from tests.open_folders import open_folder
from tests.power.disk import disk

from headrace.testing.running import started

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("mkfs.ext4"), reason="needs root"
)
DISK_BYTES = 768 * 1024**2
BLOCK_BYTES = 1024**2
ASK_S_MAX = 60.0
REFUSED_IN_A_ROW = 20  # after which the disk is taken for full: until then pages have room left
ASKED_MAX = 5_000
JOB = {"name": "load", "command": ["true"], "env": {"PADDING": "x" * 4_000}}


@pytest.fixture
def on_a_small_disk() -> Iterator[tuple[Platform, Path]]:
    """A platform, and the disk that it is on."""
    with open_folder() as folder, disk(folder, DISK_BYTES) as small:
        home = small.path / "home"
        home.mkdir()
        platform = Platform(home)
        with started(platform, "--nodes", "1", "--gpus", "simulated:1xH100-80GB"):
            yield platform, small.path


def test_a_full_disk_is_said_and_all_goes_on_when_there_is_room(on_a_small_disk) -> None:
    platform, path = on_a_small_disk
    accepted: list[str] = []
    for _ in range(2):  # the first time it is the project's key already that has no room
        not_taken = asked_while_full(platform, path, accepted)
        for key in not_taken:
            platform.wait(lambda key=key: is_accepted(platform, key, accepted), "a submission")
    assert len(set(accepted)) == len(accepted)
    with contextlib.closing(platform.client()) as client:
        for job in accepted:
            platform.wait(lambda job=job: client.job(job).job.state == "succeeded", job)
    platform.wait_ready()
    platform.verify()
    with filled(path / "filler"):
        is_said_to_people(platform)
        platform.down()
    platform.up()
    platform.verify()


def is_said_to_people(platform: Platform) -> None:
    """What `status` blames, and that `run` does not wait in silence."""
    words = ("status", "--check", "--data-dir", str(platform.data_dir))
    status = platform.headrace(*words, check=False)
    assert f"{platform.data_dir} — its disk is full: 0 MiB are free" in status.stdout
    assert status.returncode == 1, "not all is well"
    run = [sys.executable, "-m", "headrace.cli", "run", "-d", "--", "true"]
    with subprocess.Popen(run, env=platform.env, stderr=subprocess.PIPE, text=True) as asking:
        said = asking.stderr.readline()
        asking.kill()
    assert "disk is full" in said or "no answer for 3 s" in said


def asked_while_full(platform: Platform, path: Path, accepted: list[str]) -> list[str]:
    """The keys of the submissions that were not taken, after as many as it takes."""
    not_taken: list[str] = []
    row = 0
    with filled(path / "filler"):
        while row < REFUSED_IN_A_ROW:
            assert len(accepted) < ASKED_MAX, "the disk does not fill"
            key = uuid.uuid4().hex
            if is_accepted(platform, key, accepted):
                row = 0
            else:
                not_taken.append(key)
                row += 1
    return not_taken


def is_accepted(platform: Platform, key: str, accepted: list[str]) -> bool:
    """What is not is told so, and why."""
    status, answer = submitted(platform, key)
    if status != HTTPStatus.CREATED:
        assert (status, "disk is full" in answer["message"]) == (503, True), answer
        return False
    accepted.append(answer["job"])
    return True


def submitted(platform: Platform, key: str) -> tuple[int, dict]:
    """The status and the answer, as they come: the client would try again by itself."""
    headers = {"Authorization": f"Bearer {platform.token}", "Idempotency-Key": key}
    request = urllib.request.Request(
        f"{platform.url}/v1/jobs", json.dumps(JOB).encode(), headers, method="POST"
    )
    try:
        with urllib.request.urlopen(request, timeout=ASK_S_MAX) as reply:
            return reply.status, json.loads(reply.read())
    except HTTPError as error:
        return error.code, json.loads(error.read())


@contextlib.contextmanager
def filled(path: Path) -> Iterator[None]:
    """While this is open the disk has not a byte left, for root neither."""
    with path.open("wb", buffering=0) as file:
        for size in (BLOCK_BYTES, 4096):
            grow(file.fileno(), size)
        try:
            yield
        finally:
            path.unlink()


def grow(file: int, by: int) -> None:
    size = os.fstat(file).st_size
    while True:
        try:
            os.posix_fallocate(file, size, by)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            return
        size += by

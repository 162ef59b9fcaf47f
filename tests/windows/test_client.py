"""The small client on Windows: what people do with it from there."""

import json

import pytest

pytestmark = pytest.mark.windows

JOB = """\
name: train
workdir: code
command: [./train.sh]
outputs: [out]
"""
SCRIPT = "#!/bin/sh\ncat data/in.txt; mkdir -p out; echo weights > out/w; ls\n"
BATCH = "#!/bin/bash\n#SBATCH --job-name=batch\nfor i in 1 2; do\n  echo step $i\ndone\n"
SDK = """
import asyncio
from headrace.client import AsyncClient

async def main():
    async with AsyncClient.from_config() as client:
        answer = await client.submit({"name": "sdk", "command": ["true"]})
        async for event in client.events(job=answer.job, follow=True):
            if event.type.startswith("job.finished."):
                print("finished")
                break

asyncio.run(main())
"""


def crlf(text):
    """As an editor of Windows saves it."""
    return b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode()


def test_a_login_is_kept_and_kept_anew(windows, platform):
    again = windows("login", platform.url, "--token", platform.token, "--context", "there")
    assert again.returncode == 0
    rows = json.loads(windows("context", "list", "-o", "json").stdout)
    assert [row["context"] for row in rows] == ["there"]


def test_a_job_is_followed_and_its_exit_code_is_ours(windows):
    done = windows("run", "--gpus", "1", "--", "sh", "-c", "echo 'größer → 漢'; exit 3")
    assert done.returncode == 3, done.stderr
    assert "größer → 漢\n".encode() in done.stdout
    assert b"\r" not in done.stdout


def test_a_folder_travels_there_and_back(windows, tmp_path):
    (tmp_path / "code" / "data").mkdir(parents=True)
    (tmp_path / "code" / "data" / "in.txt").write_bytes(b"input\n")
    (tmp_path / "code" / "train.sh").write_text(SCRIPT)
    (tmp_path / "code" / "left.tmp").write_text("no")
    (tmp_path / "code" / ".gitignore").write_bytes(b"*.tmp\r\n")
    (tmp_path / "job.yaml").write_bytes(crlf(JOB))
    done = windows("submit", "--follow", "job.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert b"| input\n" in done.stdout
    assert b"left.tmp" not in done.stdout
    job = done.stdout.split()[0].decode()
    assert windows("outputs", job, "-o", "got", cwd=tmp_path).returncode == 0
    assert (tmp_path / "got" / "out" / "w").read_bytes() == b"weights\n"


def test_a_folder_of_the_nodes_is_not_taken_for_one_of_windows(windows, platform):
    job = windows("run", "--workdir", "/not/there", "--detach", "--", "pwd").stdout.split()[0]
    assert "cannot start: /not/there: " in platform.ended(job.decode()).why


def test_a_batch_script_of_windows_runs_on_linux(windows, tmp_path):
    (tmp_path / "s.sh").write_bytes(crlf(BATCH))
    done = windows("sbatch", "--wait", "--parsable", "s.sh", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    job = done.stdout.split()[0].decode()
    assert windows("logs", job).stdout == b"step 1\nstep 2\n"


def test_a_program_beside_a_worker_is_spoken_with(windows, platform):
    job = platform.client().submit({"name": "long", "command": ["sleep", "600"]}).job
    words = ("exec", job, "--", "sh", "-c", "cat; echo err >&2; exit 7")
    done = windows(*words, stdin=b"one\ntwo\n")
    assert (done.returncode, done.stdout, done.stderr) == (7, b"one\ntwo\n", b"err\n")
    assert windows("cancel", job).returncode == 0


def test_what_only_linux_can_be_is_said(windows):
    done = windows("up")
    assert done.returncode == 2
    assert b"machines with Linux" in done.stderr


@pytest.mark.usefixtures("windows")
def test_the_sdk_follows_events(wine):
    assert wine("-c", SDK).stdout == b"finished\r\n"

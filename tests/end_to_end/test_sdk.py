"""What the Python client and its test fixture say they do, on a whole platform."""

import asyncio
import subprocess
import sys
import textwrap

import pytest

import headrace.client
from headrace.client import Refused
from headrace.client.publisher import Publisher

JOB = {"name": "etl", "command": ["true"]}


@pytest.fixture(scope="module")
def credential(platform, tmp_path_factory):
    path = tmp_path_factory.mktemp("pipeline") / "sdk.creds"
    platform.headrace("publisher", "create", "sdk", "--out", str(path))
    return path


async def test_a_job_is_submitted_over_the_bus_once_per_key(platform, credential):
    async with Publisher(platform.nats_url, credential, "default") as publisher:
        answers = [await publisher.submit(JOB, key="sdk-1") for _ in range(2)]
    assert answers[0].job == answers[1].job
    assert platform.ended(answers[0].job)["state"] == "succeeded"


async def test_outcomes_are_heard_on_the_bus(platform, credential):
    async with Publisher(platform.nats_url, credential, "default") as publisher:
        heard: asyncio.Queue[dict] = asyncio.Queue()
        hearing = asyncio.create_task(_hear(publisher.outcomes("job.finished.v1"), heard))
        await asyncio.sleep(0)  # it subscribes before anything is submitted
        answer = await publisher.submit(JOB)
        async with asyncio.timeout(60):
            outcome = await heard.get()
            while outcome["job"] != answer.job:  # another test's, told late
                outcome = await heard.get()
        assert outcome["outcome"] == "succeeded"
    async with asyncio.timeout(60):
        await hearing  # it ends with the connection


async def _hear(outcomes, heard):
    async for outcome in outcomes:
        heard.put_nowait(outcome)


async def test_a_refusal_over_the_bus_says_why(platform, credential):
    async with Publisher(platform.nats_url, credential, "default") as publisher:
        with pytest.raises(Refused, match="unknown field; did you mean command"):
            await publisher.submit({"comand": ["true"]})


def test_the_quick_start_in_the_docstring_runs(platform):
    code = headrace.client.__doc__.split("\n\n", 1)[1].rpartition("\n\n")[0]
    program = f"{textwrap.dedent(code)}\nimport asyncio\nasyncio.run(main())\n"
    env = {**platform.env, "HEADRACE_URL": platform.url, "HEADRACE_TOKEN": platform.token}
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=120
    )
    assert done.stderr == ""
    assert done.stdout.splitlines()[-1].endswith("job.finished.v1")


def test_a_pipeline_gets_a_platform_for_its_own_tests(tmp_path):
    (tmp_path / "conftest.py").write_text("from headrace.testing import platform\n")
    (tmp_path / "test_pipeline.py").write_text(
        "def test_the_job_is_taken(platform):\n"
        f"    job = platform.client().submit({JOB!r}).job\n"
        "    assert platform.ended(job).state == 'succeeded'\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240)
    assert "1 passed" in done.stdout, done.stdout + done.stderr

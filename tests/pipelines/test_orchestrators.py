"""The examples for Airflow and Prefect, in real installations: submit, wait, cancel when killed."""

import contextlib
import json
import signal
import subprocess

import pytest
from tests.pipelines.conftest import AIRFLOW, PREFECT, ROOT

pytestmark = pytest.mark.pipelines
EXAMPLES = ROOT / "examples" / "pipelines"
HUNG_S = 300
# Prefect starts a server of its own for a flow, and gives it 20 s unless told.
SERVER = {
    "PREFECT_LOGGING_TO_API_ENABLED": "false",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": str(HUNG_S),
}


@contextlib.contextmanager
def flow(environment, tmp_path, command):
    """The Prefect flow, started; it has ended afterwards."""
    job = tmp_path / "job.json"
    job.write_text(json.dumps({"name": "flow", "command": command, "resources": {"gpus": 1}}))
    told = [environment[f"HEADRACE_{name}"] for name in ("URL", "TOKEN", "PROJECT", "PERSON")]
    errors = tmp_path / "errors"
    with errors.open("w") as stderr, subprocess.Popen(
        [str(PREFECT / "python"), str(EXAMPLES / "prefect_flow.py"), *told, str(job)],
        env={**environment, **SERVER},
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
    ) as process:  # fmt: skip
        try:
            yield process
        except BaseException:
            process.kill()
            print(errors.read_text())  # noqa: T201 - beside what went wrong
            raise


def submitted(process):
    """The job's id; the flow's server takes its time to start."""
    said = next((line for line in process.stdout if line.startswith("submitted ")), "")
    assert said, "the flow ended without a job"
    return said.split()[1]


def test_a_prefect_flow_submits_for_a_person_and_waits_for_the_end(platform, environment, tmp_path):
    with flow(environment, tmp_path, ["true"]) as process:
        job = submitted(process)
        rest, _ = process.communicate(timeout=HUNG_S)
    assert process.returncode == 0
    assert rest.splitlines()[-1] == "succeeded"
    assert platform.client().job(job).job.user == "ada"


def test_a_killed_prefect_flow_cancels_its_job(platform, environment, tmp_path):
    with flow(environment, tmp_path, ["sleep", "1000"]) as process:
        job = submitted(process)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=HUNG_S)
    assert platform.ended(job)["state"] == "cancelled"


def test_an_airflow_dag_submits_for_a_person_and_waits_by_its_trigger(platform, environment):
    env = {**environment, "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    subprocess.run([str(AIRFLOW / "airflow"), "db", "migrate"], env=env, check=True, timeout=600)
    done = subprocess.run(
        [str(AIRFLOW / "python"), str(EXAMPLES / "airflow_dag.py")],
        env=env,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [row for row in platform.client().jobs(limit=100).jobs if row.name == "nightly"]
    assert [(row.user, row.state) for row in rows] == [("ada", "succeeded")]

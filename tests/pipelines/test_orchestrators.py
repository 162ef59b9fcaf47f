"""The examples for Airflow and Prefect, in real installations: submit, wait, cancel when killed."""

import json
import signal
import subprocess

import pytest
from tests.pipelines.conftest import AIRFLOW, PREFECT, ROOT

pytestmark = pytest.mark.pipelines
EXAMPLES = ROOT / "examples" / "pipelines"


def flow(environment, tmp_path, command):
    """The Prefect flow, started."""
    job = tmp_path / "job.json"
    job.write_text(json.dumps({"name": "flow", "command": command, "resources": {"gpus": 1}}))
    told = [environment[f"HEADRACE_{name}"] for name in ("URL", "TOKEN", "PROJECT", "PERSON")]
    return subprocess.Popen(
        [str(PREFECT / "python"), str(EXAMPLES / "prefect_flow.py"), *told, str(job)],
        env={**environment, "PREFECT_LOGGING_TO_API_ENABLED": "false"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def submitted(process):
    line = next(line for line in process.stdout if line.startswith("submitted "))
    return line.split()[1]


def test_a_prefect_flow_submits_for_a_person_and_waits_for_the_end(platform, environment, tmp_path):
    process = flow(environment, tmp_path, ["true"])
    job = submitted(process)
    rest, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    assert rest.splitlines()[-1] == "succeeded"
    assert platform.client().job(job).job.user == "ada"


def test_a_killed_prefect_flow_cancels_its_job(platform, environment, tmp_path):
    process = flow(environment, tmp_path, ["sleep", "1000"])
    job = submitted(process)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=300)
    assert platform.ended(job).state == "cancelled"


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

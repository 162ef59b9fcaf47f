"""The examples for Airflow and Prefect, in real installations: submit, wait, cancel when killed."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

import pytest
from tests.pipelines.conftest import AIRFLOW, PREFECT, ROOT

HUNG_S = 600
pytestmark = [pytest.mark.pipelines, pytest.mark.timeout(3 * HUNG_S)]
EXAMPLES = ROOT / "examples" / "pipelines"
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
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
            print(errors.read_text())
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


@pytest.fixture(scope="module")
def airflow(environment, tmp_path_factory):
    """Asks the API of a whole Airflow, which has a scheduler, a triggerer and workers."""
    home, api, *logs = tmp_path_factory.mktemp("airflow"), *free_ports(3)
    env = {
        **environment,
        "PATH": f"{AIRFLOW}:/usr/bin:/bin",
        "PYTHONDONTWRITEBYTECODE": "1",
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(EXAMPLES / "airflow" / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(EXAMPLES / "airflow" / "plugins"),
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{api}/execution/",
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(api),
        "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": str(
            HUNG_S
        ),  # 5 s is short when all of it starts
        "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(logs[0]),
        "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(logs[1]),
    }
    said = home / "standalone.log"
    with said.open("w") as log, subprocess.Popen(
        [str(AIRFLOW / "airflow"), "standalone"],
        env=env, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            yield Airflow(f"http://127.0.0.1:{api}", home / "logs")
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(60)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)


def free_ports(count):
    with contextlib.ExitStack() as open_now:
        held = [
            open_now.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)
        ]
        return [each.getsockname()[1] for each in held]


class Airflow:
    """What a person does with the DAG over Airflow's own API."""

    def __init__(self, url, logs):
        self._url, self._token, self._logs = url, "", logs

    def run(self, seconds):
        """Start a run of it; its id."""
        said = self.until(
            lambda: self._ask(
                "POST", "/dagRuns", {"logical_date": None, "conf": {"seconds": seconds}}
            )
        )
        return said["dag_run_id"]

    def task(self, run):
        return self._ask("GET", f"/dagRuns/{run}/taskInstances/train")

    def waits(self, job):
        """Whether the task's trigger runs: who is killed before that is not told of it."""
        said = (path.read_text() for path in self._logs.rglob("*.trigger.*"))
        return any(f"waits for the end of job {job}" in text for text in said)

    def fail(self, run):
        """Mark the task as failed, as a person does who stops it."""
        self._ask("PATCH", f"/dagRuns/{run}/taskInstances/train", {"new_state": "failed"})

    def until(self, ask):
        """What it says once it says something; an Airflow that starts says nothing for a while."""
        deadline_s = time.monotonic() + HUNG_S
        while True:
            try:
                if said := ask():
                    return said
                failure = "not so"
            except (urllib.error.URLError, ConnectionError, TimeoutError) as error:
                failure = str(error)
            assert time.monotonic() < deadline_s, failure
            time.sleep(0.5)

    def _ask(self, method, path, body=None):
        if not self._token:
            self._token = self._json("GET", "/auth/token", None)["access_token"]
        return self._json(method, f"/api/v2/dags/headrace_nightly{path}", body)

    def _json(self, method, path, body):
        headers = {"Content-Type": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        data = None if body is None else json.dumps(body).encode()
        asked = urllib.request.Request(self._url + path, data, headers, method=method)
        with OPENER.open(asked, timeout=60) as answer:
            return json.loads(answer.read())


def nightly(platform, state):
    """A job that the DAG submitted and that is in this state; none yet."""
    rows = platform.client().jobs(limit=100).jobs
    return next((row for row in rows if (row.name, row.state) == ("nightly", state)), None)


def test_an_airflow_dag_submits_for_a_person_and_waits_by_its_trigger(platform, airflow):
    run = airflow.run(seconds=0)
    ended = airflow.until(
        lambda: (task := airflow.task(run))["state"] in ("success", "failed") and task
    )
    assert ended["state"] == "success"
    assert nightly(platform, "succeeded").user == "ada"


def test_a_killed_airflow_task_cancels_its_job(platform, airflow):
    run = airflow.run(seconds=1000)
    job = airflow.until(lambda: nightly(platform, "running")).job
    airflow.until(lambda: airflow.waits(job))
    airflow.fail(run)
    assert platform.ended(job)["state"] == "cancelled"

"""A deployment of one's own: prepared once, started process by process, used like any other."""

import contextlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.deploy import platform

from headrace.embedded.units import readiness
from headrace.testing.ports import free_port


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "state"


@pytest.fixture
def ports():
    return free_port(), free_port()


def test_processes_started_from_their_folders_run_a_job(folder, ports, database):
    nats_port, gateway_port = ports
    prepared = platform.prepare(folder, database, f"nats://127.0.0.1:{nats_port}", "n1")
    assert prepared.returncode == 0, prepared.stderr
    let_choose_ports(folder, gateway_port)

    with contextlib.ExitStack() as up:
        up.enter_context(platform.nats_server(folder, nats_port))
        files = [up.enter_context(platform.started(folder, s, s)) for s in platform.SERVICES]
        node = platform.started(
            folder,
            "n1",
            "node_agent",
            HEADRACE_NODE_DIR=str(folder / "node"),
            HEADRACE_NODE_GPUS="simulated:1xH100-80GB",
        )
        files.append(up.enter_context(node))
        for file in files:
            platform.wait(lambda file=file: readiness(file).get("status") == 200, f"{file} ready")
        done = headrace(folder, gateway_port, "run", "--gpus", "1", "--", "echo", "it runs")
        subprocess.run([sys.executable, "-m", "headrace.node_agent", "--stop-all", folder / "node"])

    assert "| it runs" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0
    assert verify(folder).startswith("verified 1 .. ")


def test_every_gateway_has_what_jobs_left_behind(folder, ports, database, tmp_path):
    nats_port, gateway_port = ports
    prepared = platform.prepare(folder, database, f"nats://127.0.0.1:{nats_port}", "n1")
    assert prepared.returncode == 0, prepared.stderr
    let_choose_ports(folder, gateway_port)
    shutil.copytree(folder / "gateway", folder / "second")
    env = folder / "second" / "env"
    env.write_text(env.read_text().replace(f"127.0.0.1:{gateway_port}", "127.0.0.1:0"))
    job = tmp_path / "job.yaml"
    job.write_text(
        "name: leaves\ncommand: echo kept > $HEADRACE_OUTPUT_DIR/it\n"
        "outputs: [it]\nresources: {gpus: 1}\n"
    )

    with contextlib.ExitStack() as up:
        up.enter_context(platform.nats_server(folder, nats_port))
        files = [up.enter_context(platform.started(folder, s, s)) for s in platform.SERVICES]
        second = up.enter_context(platform.started(folder, "second", "gateway"))
        node = platform.started(
            folder,
            "n1",
            "node_agent",
            HEADRACE_NODE_DIR=str(folder / "node"),
            HEADRACE_NODE_GPUS="simulated:1xH100-80GB",
        )
        for file in (*files, second, up.enter_context(node)):
            platform.wait(lambda file=file: readiness(file).get("status") == 200, f"{file} ready")
        ran = headrace(folder, gateway_port, "submit", "--wait", str(job))
        fetched = [
            headrace(folder, port, "outputs", "leaves", "-o", str(tmp_path / str(port)))
            for port in (gateway_port, int(second.read_text()))
        ]
        subprocess.run([sys.executable, "-m", "headrace.node_agent", "--stop-all", folder / "node"])

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert [done.returncode for done in fetched] == [0, 0], [done.stderr for done in fetched]
    assert [path.read_text() for path in tmp_path.glob("*/**/it")] == ["kept\n", "kept\n"]


def test_a_gateway_without_a_folder_that_stays_does_not_start(folder, database):
    platform.prepare(folder, database, "nats://bus:4222")
    env = folder / "gateway" / "env"
    env.write_text("".join(line for line in env.open() if "HEADRACE_FILES_DIR" not in line))
    command = ["/bin/sh", platform.DEPLOY / "start.sh", folder / "gateway", "gateway"]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"

    done = subprocess.run(
        command,
        env={"PATH": path, "HEADRACE_RUN_DIR": str(folder), "HEADRACE_INSTANCE": "g"},
        capture_output=True,
        text=True,
    )

    assert done.returncode == 1
    assert "HEADRACE_FILES_DIR must be set" in done.stderr


def test_preparing_again_keeps_every_key_and_adds_a_node(folder, database):
    platform.prepare(folder, database, "nats://bus:4222", "n1")
    before = contents(folder)

    again = platform.prepare(folder, database, "nats://bus:4222", "n1", "n2")

    assert again.returncode == 0, again.stderr
    added = set(contents(folder)) - set(before)
    assert {path.split("/")[0] for path in added} == {"n2", "secrets"}
    assert {path: text for path, text in contents(folder).items() if path in before} == before


def test_a_process_is_given_the_keys_it_needs_and_nobody_else_may_read_them(folder, database):
    platform.prepare(folder, database, "nats://bus:4222", "n1")

    given = {name: set(os.listdir(folder / name)) for name in ("admission", "gateway", "n1")}
    assert given == {
        "admission": {
            "env",
            "bus.creds",
            "master.key",
            "account.seed",
            "operator.seed",
            "bus.revoker.creds",
            "metrics.token",
        },
        "gateway": {"env", "bus.creds", "vault.pub", "grant.pub", "admin.token", "metrics.token"},
        "n1": {"env", "bus.creds", "grant.pub"},
    }
    assert {path.stat().st_mode & 0o077 for path in folder.rglob("*")} == {0}


def test_a_log_that_cannot_be_reached_is_one_line(folder):
    said = platform.prepare(folder, "postgresql://x:y@127.0.0.1:1/none", "nats://bus:4222")

    assert said.returncode == 1
    assert re.fullmatch(r"prepare: the log cannot be prepared: .+\n", said.stderr)


def let_choose_ports(folder, gateway_port):
    """The ports of a deployment are fixed; tests beside each other need others."""
    for name in (*platform.SERVICES, "n1"):
        port = gateway_port if name == "gateway" else 0
        env = folder / name / "env"
        env.write_text(re.sub(r"(HEADRACE_HTTP='127\.0\.0\.1):\d+", rf"\1:{port}", env.read_text()))


def headrace(folder, port, *words):
    env = {
        **os.environ,
        "HEADRACE_URL": f"http://127.0.0.1:{port}",
        "HEADRACE_TOKEN": (folder / "secrets" / "admin.token").read_text(),
        "HEADRACE_PROJECT": "default",
        "XDG_CONFIG_HOME": str(folder / "config"),
    }
    apply = [sys.executable, "-m", "headrace.cli", "apply", "-"]
    subprocess.run(apply, env=env, input="type: project\nname: default\n", text=True, check=True)
    return subprocess.run(
        [sys.executable, "-m", "headrace.cli", *words], env=env, capture_output=True, text=True
    )


def verify(folder):
    dsn = (folder / "secrets" / "operator.dsn").read_text()
    env = {**os.environ, "HEADRACE_PG_DSN": dsn, "XDG_DATA_HOME": str(folder / "none")}
    done = subprocess.run(
        [sys.executable, "-m", "headrace.cli", "verify"], env=env, capture_output=True, text=True
    )
    return done.stdout + done.stderr


def contents(folder):
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}

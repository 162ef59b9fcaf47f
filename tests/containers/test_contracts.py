"""The contracts of log and bus, held against servers in containers."""

import os
import secrets
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer
from testcontainers.core.image import DockerImage
from testcontainers.core.wait_strategies import LogMessageWaitStrategy
from tests.containers import images

pytestmark = [pytest.mark.containers, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
START_S_MAX = 120


@pytest.fixture(scope="module")
def daemon(engine):
    """The run's engine, without the container that cleans up after others: it would have to be
    pulled.
    """
    before, os.environ["DOCKER_HOST"] = os.environ.get("DOCKER_HOST"), engine.address
    testcontainers_config.ryuk_disabled = True
    yield
    del os.environ["DOCKER_HOST"]
    if before is not None:
        os.environ["DOCKER_HOST"] = before


@pytest.fixture(scope="module")
def nats_url(daemon, tmp_path_factory):
    context, port = images.nats(tmp_path_factory.mktemp("nats")), free_port()
    with DockerImage(context, tag="headrace-test-nats") as image:
        server = on_host(image).with_command(f"--addr 127.0.0.1 --port {port}")
        with server.waiting_for(said("Server is ready")):
            yield f"nats://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def postgres_dsn(daemon, tmp_path_factory):
    context, port = images.postgres(tmp_path_factory.mktemp("postgres")), free_port()
    password = secrets.token_hex(16)
    with DockerImage(context, tag="headrace-test-postgres") as image:
        server = on_host(image).with_envs(PASSWORD=password, PGPORT=str(port))
        with server.waiting_for(said("is ready to accept")):
            yield f"postgresql://postgres:{password}@127.0.0.1:{port}/postgres"


def said(text):
    return LogMessageWaitStrategy(text).with_startup_timeout(START_S_MAX)


def on_host(image):
    """On the host's network: the engine changes nothing of it."""
    return DockerContainer(str(image)).with_kwargs(network_mode="host")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def test_servers_in_containers_keep_the_contracts_of_log_and_bus(nats_url, postgres_dsn):
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--quiet", "tests/contract"],
        cwd=ROOT,
        env=os.environ | {"HEADRACE_NATS_URL": nats_url, "HEADRACE_PG_DSN": postgres_dsn},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr

"""The contracts of log and bus, held against servers in containers."""

import os
import secrets
import subprocess
import sys
from pathlib import Path

import docker
import pytest
from docker.errors import DockerException
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer
from testcontainers.core.image import DockerImage
from testcontainers.core.wait_strategies import LogMessageWaitStrategy
from tests.containers import images

pytestmark = [pytest.mark.containers, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
START_S_MAX = 120


@pytest.fixture(scope="module")
def daemon():
    """Docker, without the container that cleans up after others: it would have to be pulled."""
    try:
        docker.from_env().ping()
    except DockerException as error:
        pytest.skip(f"NO DOCKER DAEMON ANSWERS, NOTHING WAS TESTED: {error}")
    testcontainers_config.ryuk_disabled = True


@pytest.fixture(scope="module")
def nats_url(daemon, tmp_path_factory):
    context = images.nats(tmp_path_factory.mktemp("nats"))
    with DockerImage(context, tag="headrace-test-nats") as image:
        server = DockerContainer(str(image)).with_exposed_ports(4222)
        with server.waiting_for(said("Server is ready")):
            yield f"nats://{address(server, 4222)}"


@pytest.fixture(scope="module")
def postgres_dsn(daemon, tmp_path_factory):
    context = images.postgres(tmp_path_factory.mktemp("postgres"))
    password = secrets.token_hex(16)
    with DockerImage(context, tag="headrace-test-postgres") as image:
        server = DockerContainer(str(image)).with_exposed_ports(5432)
        with server.with_env("PASSWORD", password).waiting_for(said("is ready to accept")):
            yield f"postgresql://postgres:{password}@{address(server, 5432)}/postgres"


def said(text):
    return LogMessageWaitStrategy(text).with_startup_timeout(START_S_MAX)


def address(server, port):
    return f"{server.get_container_host_ip()}:{server.get_exposed_port(port)}"


def test_servers_in_containers_keep_the_contracts_of_log_and_bus(nats_url, postgres_dsn):
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--quiet", "tests/contract"],
        cwd=ROOT,
        env=os.environ | {"HEADRACE_NATS_URL": nats_url, "HEADRACE_PG_DSN": postgres_dsn},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr

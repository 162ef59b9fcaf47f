"""Folders and a cluster for the tests of the servers' own supervision."""

import shutil
import uuid

import pytest

from headrace.embedded.accounts import plain_account, private_folder
from headrace.embedded.postgres import Postgres


@pytest.fixture(scope="module")
def cluster_base(server_folder):
    """A folder whose cluster the tests of one module start and stop in turn."""
    base = private_folder(server_folder / f"pg-{uuid.uuid4().hex[:8]}", plain_account())
    yield base
    Postgres(base).stop()
    shutil.rmtree(base, ignore_errors=True)


@pytest.fixture
def postgres(cluster_base):
    """Its server, stopped; whatever the test leaves running is stopped."""
    server = Postgres(cluster_base)
    yield server
    server.stop()

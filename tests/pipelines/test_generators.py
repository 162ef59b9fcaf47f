"""Clients that others' generators make of our OpenAPI document: whole, and good for submitting."""

import json
import subprocess

import pytest
from tests.pipelines.conftest import GENERATORS, ROOT

from headrace.gateway import openapi

pytestmark = pytest.mark.pipelines
DOCUMENT = ROOT / "proto-schemas" / "openapi.json"
USE = """
import sys
from {package} import AuthenticatedClient
from {package}.api.default import v1_jobs_list_jobs, v1_jobs_submit
from {package}.models import JobFile

client = AuthenticatedClient(base_url=sys.argv[1], token=sys.argv[2])
job = JobFile.from_dict({{"name": "generated", "command": ["true"], "project": "default"}})
answer = v1_jobs_submit.sync(client=client, body=job)
assert answer.accepted, answer
page = v1_jobs_list_jobs.sync(client=client, project="default")
assert answer.job in [row.job for row in page.jobs], page
print(answer.job)
"""


def ran(*command, env=None):
    path = {"PATH": f"{GENERATORS}:/usr/bin:/bin", **(env or {})}
    done = subprocess.run(command, capture_output=True, text=True, env=path, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_openapi_python_client_loses_nothing_and_its_client_submits(platform, tmp_path):
    made = tmp_path / "client"
    tool = str(GENERATORS / "openapi-python-client")
    said = ran(tool, "generate", "--path", str(DOCUMENT), "--output-path", str(made))
    assert "warning" not in said.lower(), said
    operations = [
        operation
        for methods in openapi.document()["paths"].values()
        for operation in methods.values()
    ]
    package = next(made.glob("*/__init__.py")).parent
    modules = [path for path in (package / "api").rglob("*.py") if path.name != "__init__.py"]
    assert len(modules) == len(operations)
    platform.wait_ready()
    python = str(GENERATORS / "python")
    use = USE.format(package=package.name)
    job = ran(python, "-c", use, platform.url, platform.token, env={"PYTHONPATH": str(made)})
    assert job.startswith("generated-")


def test_datamodel_code_generator_skips_no_schema(tmp_path):
    made = tmp_path / "models.py"
    tool = str(GENERATORS / "datamodel-codegen")
    said = ran(
        tool, "--input", str(DOCUMENT), "--input-file-type", "openapi", "--output", str(made),
        "--output-model-type", "pydantic_v2.BaseModel", "--formatters", "ruff-format",
    )  # fmt: skip
    assert said == ""
    names = json.loads(DOCUMENT.read_text())["components"]["schemas"]
    check = f"import sys, models; [getattr(models, n) for n in {sorted(names)!r}]"
    ran(str(GENERATORS / "python"), "-c", check, env={"PYTHONPATH": str(tmp_path)})

"""Workspaces, as job files say them."""

import subprocess
from pathlib import Path

import pytest

from headrace.documents import JobFile, plan, read_job
from headrace.documents.apps import APPS
from headrace.documents.shell_text import SHELL
from headrace.documents.yaml_text import parse_documents
from headrace.events import Refusal
from headrace.events.asked import Workspace

SERVE = 'python -m http.server "$HEADRACE_APP_PORT"'


def found(**fields):
    job = read_job({"type": "workspace", "app": {"command": SERVE}} | fields)
    return plan(job) if isinstance(job, JobFile) else job


def test_a_workspace_runs_its_app_and_nothing_is_taken_from_it():
    planned = found(name="notebook", pools=["build"], max_duration="12h")
    assert planned.command == (*SHELL, SERVE)
    assert (planned.workspace, planned.gang.kind) == (Workspace(), "workspace")
    assert not planned.preemptible
    assert planned.env == {}


def test_a_workspace_may_say_where_it_listens_and_that_it_may_be_preempted():
    app = {"command": ["serve"], "port": 8888}
    planned = found(app=app, preemptibility="preemptible")
    assert (planned.workspace.port, planned.env) == (8888, {"HEADRACE_APP_PORT": "8888"})
    assert planned.command == ("serve",)
    assert planned.preemptible


def test_a_workspace_may_end_when_nobody_uses_it():
    planned = found(idle={"for": "1h", "action": "stop"})
    assert planned.workspace == Workspace(idle_us=3_600_000_000)


@pytest.mark.parametrize("app", sorted(APPS))
def test_an_application_that_is_not_installed_ends_with_what_is_missing(app):
    bash, *options = found(app=app).command
    env = {"PATH": "/nowhere", "HEADRACE_APP_SOCKET": "/nowhere/1.sock"}
    ended = subprocess.run([bash, *options], env=env, capture_output=True, text=True, check=False)
    assert ended.returncode == 127
    assert ended.stderr.startswith(f"app: {app} needs ")
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("fields", "kept"),
    [({}, (".",)), ({"outputs": ["runs/"]}, ("runs",)), ({"workdir": "/srv"}, ())],
)
def test_all_of_a_workspaces_folder_is_kept_unless_it_says_what(fields, kept):
    assert found(**fields).outputs == kept


def test_the_notebook_of_the_examples_is_understood():
    example = Path(__file__).parents[2] / "examples" / "notebook.yaml"
    (document,) = parse_documents(example.read_bytes())
    planned = plan(read_job({**document.fields, "workdir": ""}))
    assert planned.workspace == Workspace(idle_us=3_600_000_000, app="jupyter")


def test_training_is_preemptible_and_no_workspace():
    planned = plan(read_job({"command": "x"}))
    assert planned.preemptible
    assert planned.workspace is None


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"app": ""}, "app — must be given; jupyter, vscode, marimo, tensorboard, or app: {"),
        ({"app": "emacs"}, "app = emacs — is no application known here"),
        ({"app": {}}, "app.command — must be given"),
        ({"app": {"command": "x", "prot": 1}}, "app.prot — unknown field; did you mean port?"),
        ({"app": {"command": "x", "port": 70_000}}, "app.port = 70000 — must be a whole number"),
        ({"app": {"command": "x", "port": "a"}}, "app.port = a — must be a whole number"),
        ({"command": "x"}, "command — a workspace runs its app"),
        ({"nodes": 2}, "nodes = 2 — a workspace is one worker"),
        ({"array": "0..3"}, "array — a workspace is one worker"),
        ({"idle": {"for": "1s"}}, "idle.for = 1s — is from 20s to 366d"),
        ({"idle": {"for": "soon"}}, "idle.for = soon — is not a duration"),
        ({"idle": {"action": "stop"}}, "idle.for — must be given; for: 1h"),
        ({"idle": {"for": "1h", "action": "pause"}}, "idle.action = pause — is not known here"),
        ({"idle": {"fro": "1h"}}, "idle.fro — unknown field; did you mean for?"),
        ({"type": "training", "app": "", "command": "x", "idle": {"for": "1h"}}, "idle — only a"),
        ({"type": "training", "command": "x"}, "app — only a workspace has one"),
        ({"type": "inference"}, "type = inference — not yet; training or workspace"),
    ],
)
def test_what_cannot_be_is_refused_by_name(fields, said):
    refusal = found(**fields)
    assert isinstance(refusal, Refusal)
    assert said in str(refusal)

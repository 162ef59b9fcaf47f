"""Templates: what one may say, and a job file laid over one."""

import pytest

from headrace.documents import read_fleet
from headrace.documents.template_file import laid, with_origin
from headrace.documents.yaml_text import parse_documents
from headrace.events import Refusal
from headrace.events.templates import Template


def read(text):
    (document,) = parse_documents(text)
    return read_fleet(document.fields, document.lines)


def test_a_template_keeps_the_fields_that_have_a_value_in_their_order():
    found = read(
        "type: template\nname: ddp\nproject: vision\ndescription: two nodes\n"
        "job:\n  nodes: 2..4\n  resources: {gpus: 8}\n  setup:\n"
    )
    assert isinstance(found, Template)
    assert (found.name, found.project, found.description) == ("ddp", "vision", "two nodes")
    assert found.job == '{"nodes":"2..4","resources":{"gpus":8}}'


@pytest.mark.parametrize(
    ("job", "line"),
    [
        (
            "resources: {gpsu: 8}",
            "refused: job.resources.gpsu — unknown field; did you mean gpus? (line 4)",
        ),
        ("template: other", "refused: job.template = other — a template names no other"),
        ("project: vision", "refused: job.project = vision — the project is that of whoever"),
        ("priority: hgh", "refused: job.priority = hgh — is not one of the words known here; did"),
        ("env: {API_TOKEN: x}", "refused: job.env.API_TOKEN — looks like a credential"),
        ("env: {HOME: }", "refused: job.env.HOME — has no value"),
        ("deadline: 8h", "refused: job.deadline — not yet (line 4)"),
        ("workdir: .", "refused: job.workdir = . — a folder travels from the machine"),
        (f"workdir: sha256:{'a' * 64}", "refused: job.workdir — a folder travels with a job"),
        ("nodes: 0", "refused: job.nodes = 0"),
        ("", "refused: job — must be given"),
    ],
)
def test_what_no_job_could_be_is_refused_where_it_stands(job, line):
    found = read(f"type: template\nname: t\njob:\n  {job}\n")
    assert isinstance(found, Refusal)
    assert str(found).startswith(line)


@pytest.mark.parametrize(
    "job",
    [
        "command: [python, train.py]\n  secrets: [KEY]",
        "app: jupyter\n  type: workspace",
        'command: "train ${{ params.lr }}"',
        "roles: {ps: {nodes: 1, command: x}}",
        "volumes: [data:/data:ro]\n  checkpoint: {dir: /data}",
    ],
)
def test_whatever_a_job_file_could_say_in_part_is_a_template(job):
    assert isinstance(read(f"type: template\nname: t\njob:\n  {job}\n"), Template)


def test_what_the_job_file_says_wins_and_mappings_are_merged_one_level_deep():
    template = {
        "nodes": 2,
        "env": {"A": "1", "B": "1"},
        "resources": {"gpus": 8, "cpu": 4},
        "volumes": ["data:/data"],
        "checkpoint": {"dir": "/c", "grace": "60s"},
    }
    job = {
        "template": "ddp",
        "command": "x",
        "env": {"B": "2", "C": "2"},
        "resources": {"gpus": 1, "cpu": None},
        "volumes": [],
        "checkpoint": None,
    }
    fields, from_template = laid(template, job)
    assert fields == {
        "nodes": 2,
        "command": "x",
        "env": {"A": "1", "B": "2", "C": "2"},
        "resources": {"gpus": 1, "cpu": 4},
        "volumes": [],
        "checkpoint": {"dir": "/c", "grace": "60s"},
    }
    assert from_template == ("nodes", "env.A", "resources.cpu", "checkpoint")


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ("nodes", " (in template ddp)"),
        ("env.A", " (in template ddp)"),
        ("env.B", " (in the job file)"),
        ("volumes[0]", " (in the job file)"),
        ("checkpoint.grace", " (in template ddp)"),
        ("document", ""),
    ],
)
def test_a_refusal_says_who_wrote_the_field(field, said):
    refusal = Refusal(field=field, rule="is wrong", instead="another")
    own = {"env": {"B": "2"}, "volumes": ["x"]}
    told = with_origin(refusal, "ddp", ("nodes", "env.A", "checkpoint"), own)
    assert str(told) == f"refused: {field} — is wrong{said}; another"

"""The shape of a job file: nothing in it is ignored."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.documents import JobFile, Plan, plan, read_job, read_job_json
from headrace.documents.job_file import Resources, Sweep
from headrace.events import Refusal


def line(document, lines=None):
    """The one line that a document is refused with, at whichever stage."""
    job = read_job(document, lines or {})
    found = job if isinstance(job, Refusal) else plan(job, lines or {})
    assert isinstance(found, Refusal), found
    return str(found)


def test_a_job_file_is_the_same_struct_for_everyone():
    job = read_job({"name": "a", "command": ["x", 1], "resources": {"gpus": "H100:2"}})
    assert job == JobFile(name="a", command=["x", 1], resources=Resources(gpus="H100:2"))


def test_an_unknown_field_is_refused_with_the_nearest_name_and_its_line():
    said = line({"comand": "x"}, {"": 1, "comand": 5})
    assert said == "refused: comand — unknown field; did you mean command? (line 5)"


@pytest.mark.parametrize(
    ("document", "instead"),
    [
        ({"gpus": 2}, "did you mean resources.gpus?"),
        ({"comm": "x"}, "did you mean command?"),
        ({"resources": {"gpu": 2}}, "did you mean gpus?"),
        ({"sweep": {"paralel": 2}}, "did you mean parallel?"),
        ({"zzzz": 2}, ""),
    ],
)
def test_the_name_that_was_probably_meant_is_found(document, instead):
    refusal = read_job(document)
    assert (refusal.rule, refusal.instead) == ("unknown field", instead)


@pytest.mark.parametrize("name", JobFile.not_yet)
def test_every_field_that_is_not_built_is_refused_by_name(name):
    assert line({"command": "x", name: {"on": "x"}}) == f"refused: {name} — not yet"


def test_a_field_without_a_value_counts_as_absent():
    assert read_job({"command": "x", "setup": None, "volumes": None}) == JobFile(command="x")


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"nodes": [1]}, "refused: nodes — expected a number or text, got a list"),
        ({"command": {"a": 1}}, "refused: command — expected text or a list, got a mapping"),
        ({"name": 7}, "refused: name = 7 — expected text, got a whole number"),
        ({"secrets": "A"}, "refused: secrets = A — expected a list, got text"),
        ({"secrets": ["A", 3]}, "refused: secrets[1] = 3 — expected text, got a whole number"),
        ({"resources": 3}, "refused: resources = 3 — must be a mapping of names to values"),
        ([1], "refused: document — must be a mapping of names to values"),
        ("text", "refused: document = text — must be a mapping of names to values"),
        ({7: 1}, "refused: 7 — unknown field"),
    ],
)
def test_a_wrong_type_is_said_in_words(document, said):
    assert line(document) == said


@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff\xfe", b"[" * 5_000, b'"' + b"a" * 300_000 + b'"']
)
def test_what_is_no_document_at_all_is_refused_in_one_line(body):
    refusal = read_job_json(body)
    assert isinstance(refusal, Refusal)
    assert "\n" not in str(refusal)


def test_a_document_too_deep_to_walk_is_refused():
    deep = {"env": {}}
    for _ in range(50):
        deep = {"env": deep}
    assert "levels" in line(deep)


def test_what_a_terminal_would_obey_is_never_repeated():
    assert "\x1b" not in line({"\x1b[31mcommand": 1})
    assert "\x1b" not in line({"command": "x", "priority": "\x1b[31mhigh\n"})
    assert line({"roles": {"\x1b[31m": 3}}).startswith("refused: roles.?[31m = 3 — ")


def test_a_name_that_is_refused_is_not_repeated_at_any_length():
    assert len(line({"roles": {"a" * 100_000: 3}})) < 300


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
FIELDS = st.sampled_from([*JobFile.__struct_fields__, "gpu", "resorces"])
JOB_LIKE = st.dictionaries(
    FIELDS,
    JSON
    | st.sampled_from(["2..8", "H100:8", "0..9%2", "90s", "8GB", "medium", "per-gpu", "${{ a }}"])
    | st.dictionaries(
        st.sampled_from([*Resources.__struct_fields__, *Sweep.__struct_fields__]), JSON
    ),
    max_size=8,
)


@given(JOB_LIKE)
def test_any_document_is_a_plan_or_a_refusal(document):
    job = read_job(document)
    found = job if isinstance(job, Refusal) else plan(job)
    assert isinstance(found, Plan | Refusal)
    assert str(found).isprintable() or isinstance(found, Plan)


@given(st.binary(max_size=200) | JOB_LIKE.map(msgspec.json.encode))
def test_any_bytes_are_a_job_file_or_a_refusal(body):
    assert isinstance(read_job_json(body), JobFile | Refusal)


@given(JOB_LIKE)
def test_a_job_file_survives_being_sent(document):
    job = read_job(document)
    if isinstance(job, JobFile):
        assert read_job_json(msgspec.json.encode(job)) == read_job_json(
            msgspec.json.encode(read_job_json(msgspec.json.encode(job)))
        )

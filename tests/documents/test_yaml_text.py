"""YAML text becomes plain documents with their lines."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.documents.yaml_text import parse_documents
from headrace.events import Refusal

TEXT = """\
# a comment
type: training
command: [python, train.py]
resources:
  gpus: 0.50
  cpu: 2
---
type: project
name: vision
---
"""


def only(text):
    (document,) = parse_documents(text)
    return document


def test_each_document_has_its_fields_and_their_lines():
    first, second = parse_documents(TEXT)
    assert first.fields == {
        "type": "training",
        "command": ["python", "train.py"],
        "resources": {"gpus": "0.50", "cpu": 2},
    }
    assert first.lines["resources.gpus"] == 5
    assert first.lines["command[1]"] == 3
    assert second.fields["name"] == "vision"
    assert second.lines["name"] == 9


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: on", "on"),
        ("a: no", "no"),
        ("a: true", True),
        ("a: 'true'", "true"),
        ("a: 12:30", "12:30"),
        ("a: 0123", 123),
        ("a: 1e-5", "1e-5"),
        ("a: 1.0e-5", "1.0e-5"),
        ("a: 0.10", "0.10"),
        ("a: 2026-01-02", "2026-01-02"),
        ("a: 2..8", "2..8"),
        ("a:", None),
        ("a: ~", None),
        ("a: ''", ""),
        ("a: " + "9" * 5000, "9" * 5000),
        ("a: |\n  x\n  y\n", "x\ny\n"),
        ("a: ${{ params.lr }}", "${{ params.lr }}"),
    ],
)
def test_a_value_is_what_it_looks_like(text, value):
    assert only(text).fields["a"] == value


def test_on_is_a_name():
    assert only("retry: {on: [oom]}").fields == {"retry": {"on": ["oom"]}}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\nb:\n  c: 1\n  c: 2", "refused: b.c — is given twice (line 4)"),
        ("a: &x 1", "refused: a — anchors and aliases are not taken (line 1)"),
        ("a: *x", "refused: a — anchors and aliases are not taken (line 1)"),
        ("a: !!python/name:os.system", "refused: a = tag:yaml.org,2002:python/name:os.system — tags are not taken (line 1)"),
        ("\n- 1", "refused: document — must be a mapping of names to values (line 2)"),
        ("text", "refused: document — must be a mapping of names to values (line 1)"),
        ("? [a]\n: 1", "refused: document — a name must be plain text (line 1)"),
        ("a: [1", "refused: document — is not YAML: expected ',' or ']', but got '<stream end>' (line 1)"),
        ("a: b: c", "refused: document — is not YAML: mapping values are not allowed here (line 1)"),
        ("a: \t- x\n\t", None),
    ],
)  # fmt: skip
def test_what_is_no_document_is_refused_with_its_line(text, said):
    refusal = parse_documents(text)
    assert isinstance(refusal, Refusal)
    assert said is None or str(refusal) == said


@pytest.mark.parametrize(
    "text",
    [
        "a: " + "[" * 100 + "]" * 100,
        "a: [" + "1," * 60_000 + "1]",
        "a: " + "x" * 300_000,
        "---\na: 1\n" * 300,
        b"\xff\xfe\x00",
        "a: \0",
    ],
)
def test_size_depth_and_bytes_have_their_limits(text):
    refusal = parse_documents(text)
    assert isinstance(refusal, Refusal)
    assert len(str(refusal)) < 300


@given(st.text() | st.binary())
def test_any_text_is_documents_or_a_refusal(text):
    found = parse_documents(text)
    assert isinstance(found, list | Refusal)


VALUES = st.recursive(
    st.text(st.characters(codec="ascii", categories=("L", "N", "P")), min_size=1)
    | st.integers(0, 10**9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("abcdef", min_size=1, max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.text("abcdef", min_size=1, max_size=5), VALUES, min_size=1, max_size=4))
def test_json_is_read_as_the_document_it_is(document):
    assert only(msgspec.json.encode(document)).fields == document

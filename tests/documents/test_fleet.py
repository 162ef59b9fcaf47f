"""Documents of administrators."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.documents import read_queue
from headrace.documents.fleet import GpuAmounts, QueueDocument
from headrace.events import Refusal
from headrace.events.queues import Queue


def test_a_project_has_what_its_document_says_and_defaults_for_the_rest():
    gpus = {"quota": 16, "limit": "32", "over_quota_weight": 2}
    document = {"type": "project", "name": "vision", "department": "research", "gpus": gpus}
    assert read_queue(document) == Queue(
        queue="vision", kind="project", parent="research", quota_milli=16_000, limit_milli=32_000,
        weight=2, priority=100,
    )  # fmt: skip
    assert read_queue({"type": "department", "name": "research", "priority": 7}) == Queue(
        queue="research", kind="department", priority=7
    )


def test_a_quota_may_be_the_whole_fleet_and_a_limit_none():
    found = read_queue({"type": "project", "name": "a", "gpus": {"quota": "all", "limit": "none"}})
    assert (found.quota_milli, found.limit_milli) == (-1, -1)


def test_a_quota_may_be_part_of_a_gpu():
    assert read_queue({"type": "project", "name": "a", "gpus": {"quota": 0.5}}).quota_milli == 500


@pytest.mark.parametrize("name", QueueDocument.not_yet)
def test_what_a_project_cannot_have_yet_is_refused_by_name(name):
    refusal = read_queue({"type": "project", "name": "a", name: {"x": 1}})
    assert str(refusal) == f"refused: {name} — not yet"


@pytest.mark.parametrize("name", GpuAmounts.not_yet)
def test_what_an_amount_cannot_have_yet_is_refused_by_name(name):
    refusal = read_queue({"type": "project", "name": "a", "gpus": {name: {}}})
    assert str(refusal) == f"refused: gpus.{name} — not yet"


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"type": "pool", "name": "a", "nodes": {}}, "refused: type = pool — not yet; department or project"),
        ({"type": "volume"}, "refused: type = volume — not yet; department or project"),
        ({"type": "projct", "name": "a"}, "refused: type = projct — is not a document that can be applied; did you mean project?"),
        ({"type": "training"}, "refused: type = training — is a job; headrace submit"),
        ({"name": "a"}, "refused: type — must be given; department or project"),
        ({"type": "project"}, "refused: name — has 1 to 41 of a-z 0-9 and '-', not starting with '-'"),
        ({"type": "project", "name": "A.b"}, "refused: name = A.b — has 1 to 41 of a-z 0-9 and '-', not starting with '-'"),
        ({"type": "project", "name": "a", "gpus": {"quota": -1}}, "refused: gpus.quota = -1 — must be a number, not negative; such as 2 or 0.5"),
        ({"type": "project", "name": "a", "gpus": {"quotas": 1}}, "refused: gpus.quotas — unknown field; did you mean quota?"),
        ({"type": "project", "name": "a", "quota": 1}, "refused: quota — unknown field; did you mean gpus.quota?"),
        ({"type": "project", "name": "a", "priority": "high"}, "refused: priority = high — must be a whole number from 0 to 1000000"),
        ([], "refused: document — must be a mapping of names to values"),
    ],
)  # fmt: skip
def test_what_is_no_such_document_is_refused_in_one_line(document, said):
    assert str(read_queue(document)) == said


def test_a_refusal_names_the_line():
    refusal = read_queue({"type": "project", "name": "a", "pool": 1}, {"": 3, "pool": 6})
    assert str(refusal).endswith("did you mean pools? (line 6)")


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(QueueDocument.__struct_fields__), ANY, max_size=5))
def test_any_document_is_a_queue_or_a_refusal(document):
    assert isinstance(read_queue({"type": "project", "name": "a"} | document), Queue | Refusal)

"""What is told of job files' fields is told of all of them."""

from headrace.documents.job_fields import TEXTS, fields_of


def test_every_field_has_a_text_and_every_text_a_field():
    assert list(fields_of()) == list(TEXTS)
    assert all(text.endswith((".", "…")) for text in TEXTS.values())

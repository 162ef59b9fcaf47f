"""What is written for readers of our events, and the promise that old examples stay readable."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from headrace.events import EVENTS, Event, decode, encode, export, tag_of
from headrace.events.examples import example_of

FOLDER = Path(__file__).parents[2] / "proto-schemas"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder just written."""
    place = tmp_path_factory.mktemp("schemas")
    export.write(place)
    return place


def test_what_is_kept_is_what_the_code_would_write() -> None:
    assert export.stale(FOLDER) == []


@pytest.mark.parametrize("path", sorted((FOLDER / "examples").glob("*.json")), ids=lambda p: p.stem)
def test_every_frozen_example_is_read_and_written_alike(path: Path) -> None:
    data = path.read_bytes().rstrip(b"\n")

    assert encode(decode(path.stem, data)) == data


@pytest.mark.parametrize("event", EVENTS, ids=tag_of)
def test_an_example_sets_every_field(event: type[Event]) -> None:
    fields = msgspec.json.decode(encode(example_of(event)))

    assert set(fields) == {*event.__struct_fields__, "type"}


@pytest.mark.parametrize("event", EVENTS, ids=tag_of)
def test_every_event_is_declared_as_a_fact_or_a_decision_of_somebody(event: type[Event]) -> None:
    assert event.kind in {"fact", "decision"}
    assert event.owner in {"admission", "quota", "placement", "metrics", "log", "*"}
    assert set(event.public) <= set(event.__struct_fields__)
    assert event.__doc__


@pytest.mark.parametrize("event", EVENTS, ids=tag_of)
def test_no_event_has_a_field_that_may_be_a_float(event: type[Event]) -> None:
    assert '"number"' not in msgspec.json.encode(msgspec.json.schema(event)).decode()


def test_an_example_that_exists_is_never_written_again(folder: Path) -> None:
    example = folder / "examples" / "node.heard.v1.json"
    example.write_bytes(b'{"type":"node.heard.v1","node":"old"}\n')

    export.write(folder)

    assert b"old" in example.read_bytes()


def test_what_is_stale_is_named(folder: Path) -> None:
    schema, example = folder / "schemas/node.heard.v1.json", folder / "examples/job.held.v1.json"
    schema.write_text("{}")
    example.write_text('{"type":"job.held.v1","job":7}')
    (folder / "schemas/gone.done.v1.json").write_text("{}")

    found = "\n".join(export.stale(folder))

    assert "schemas/node.heard.v1.json is stale" in found
    assert "schemas/gone.done.v1.json describes an event that is no more" in found
    assert "examples/job.held.v1.json cannot be read any more" in found
    assert export.main([str(folder), "--check"]) == 1

"""Who asked, what is the same request, and which envelopes are refused at the door."""

from __future__ import annotations

import msgspec
import pytest

from headrace.events.jobs import JobCancelRequested

from .rig import Rig, virtual


@virtual
async def test_the_actor_on_record_is_the_publisher_in_the_subject_whatever_its_headers_say():
    rig = Rig()
    host = await rig.leading()
    for door in ("request.ads.etl", "request.ads.other"):
        answer = await rig.ask("j", key=door, door=door, headers={"ce-source": "publisher:admin"})
        assert answer["accepted"]
    assert [header.actor for header in rig.headers(JobCancelRequested)] == [
        "publisher:ads/etl",
        "publisher:ads/other",
    ]
    await rig.end(host)


@virtual
async def test_a_request_is_the_same_when_source_and_key_are():
    rig = Rig()
    host = await rig.leading()
    first = await rig.ask("j", key="k", headers={"ce-source": "/a"})
    other = await rig.ask("another", key="k", headers={"ce-source": "/b"})
    by_ada = {"door": "gateway.ads", "headers": {"Headrace-Actor": "ada"}}
    adas = await rig.ask("j", key="k", **by_ada)
    bens = await rig.ask("j", key="k", door="gateway.ads", headers={"Headrace-Actor": "ben"})
    assert len({answer["position"] for answer in (first, other, adas, bens)}) == 4
    assert await rig.ask("j", key="k", headers={"ce-source": "/a"}) == first
    assert await rig.ask("j", key="k", **by_ada) == adas
    await rig.end(host)


@virtual
@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({"ce-type": "headrace.job.submit.v1"}, "refused: ce-type = headrace.job.submit.v1 — is"),
        ({"ce-type": ""}, "is not what the subject says (job.cancel); headrace.job.cancel.v1"),
        (
            {"ce-source": ""},
            "refused: ce-source — a source has 1 to 200 printable characters; /etl",
        ),
        ({"ce-source": "x" * 201}, "refused: ce-source"),
        ({"ce-source": "/gateway/ada"}, "is the source of requests over HTTP; /etl"),
        ({"ce-specversion": ""}, "refused: ce-specversion — is not the version"),
        ({"ce-specversion": "0.3"}, "refused: ce-specversion = 0.3 — is not the version"),
        (
            {"content-type": "application/cloudevents+avro"},
            "refused: content-type = application/cloudevents+avro — is a format",
        ),
    ],
)
async def test_an_envelope_that_says_something_else_is_refused_at_the_door(headers, said):
    rig = Rig()
    host = await rig.leading()
    answer = await rig.ask("j", headers=headers)
    assert not answer["accepted"]
    assert said in answer["message"]
    assert rig.events(JobCancelRequested) == []
    await rig.end(host)


EVENT = {
    "specversion": "1.0",
    "id": "k",
    "source": "test",
    "type": "headrace.job.cancel.v1",
    "datacontenttype": "application/json",
    "time": "2026-11-21T04:00:00Z",
    "data": {"job": "j"},
}
STRUCTURED = "application/cloudevents+json"


async def _structured(rig, event, content_type=STRUCTURED):
    headers = {"ce-id": "", "ce-type": "", "ce-source": "", "ce-specversion": ""}
    body = event if isinstance(event, bytes) else msgspec.json.encode(event)
    return await rig.ask(body=body, headers=headers | {"Content-Type": content_type})


@virtual
async def test_a_structured_event_is_the_same_request_as_a_binary_one():
    rig = Rig()
    host = await rig.leading()
    answer = await _structured(rig, EVENT)
    assert answer["accepted"]
    assert await _structured(rig, EVENT, f"{STRUCTURED}; charset=utf-8") == answer
    base64 = {name: value for name, value in EVENT.items() if name != "data"}
    assert await _structured(rig, base64 | {"data_base64": "eyJqb2IiOiJqIn0="}) == answer
    assert await rig.ask("j", key="k") == answer
    assert len(rig.events(JobCancelRequested)) == 1
    await rig.end(host)


@virtual
@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"id": 7}, 'refused: id = 7 — is no text: Expected `str | null`, got `int`; "7"'),
        ({"id": None}, "refused: id — an idempotency key has"),
        ({"source": ["/etl"]}, "refused: source = "),
        ({"type": True}, "refused: type = true — is no text"),
        ({"type": "headrace.job.submit.v1"}, "refused: type = headrace.job.submit.v1 — is not"),
        ({"specversion": 1.0}, "refused: specversion = 1.0 — is no text"),
        ({"specversion": "2.0"}, "refused: specversion = 2.0 — is not the version"),
        ({"time": "yesterday"}, "refused: time = yesterday — is no time; such as 2026"),
        ({"datacontenttype": "text/xml"}, "refused: datacontenttype = text/xml — is a type"),
        ({"data_base64": "eyJ9"}, "refused: data_base64 — is not beside data"),
        ({"data": "j"}, "refused: "),
        ({"data": 7}, "refused: "),
    ],
)
async def test_a_structured_event_of_wrong_types_is_refused_with_the_way_out(changed, said):
    rig = Rig()
    host = await rig.leading()
    answer = await _structured(rig, EVENT | changed)
    assert not answer["accepted"]
    assert answer["message"].startswith(said), answer["message"]
    assert rig.events(JobCancelRequested) == []
    await rig.end(host)


@virtual
@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b"[" * 100_000, b'{"id": "\xff"}'])
async def test_what_is_no_structured_event_at_all_is_refused(body):
    rig = Rig()
    host = await rig.leading()
    answer = await _structured(rig, body)
    assert answer["message"].startswith("refused: ")
    assert rig.events(JobCancelRequested) == []
    await rig.end(host)

"""Who asked, what is the same request, and which envelopes are refused at the door."""

from __future__ import annotations

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

"""The AsyncAPI document: complete, as it is kept, and of what publishers may do."""

from pathlib import Path

import msgspec
from tests.end_to_end.pipeline import JOB

from headrace.bus.credentials import publisher_permissions
from headrace.bus.subjects import matches
from headrace.documents import JobFile, read_job
from headrace.runtime.pipelines import asyncapi

FOLDER = Path(__file__).parents[2] / "proto-schemas"
DOCUMENT = msgspec.json.decode((FOLDER / asyncapi.FILE).read_bytes())


def test_it_is_kept_as_the_code_would_write_it():
    assert asyncapi.main([str(FOLDER), "--check"]) == 0


def test_every_reference_leads_somewhere():
    for reference in _found(DOCUMENT, "$ref"):
        name, _, pointer = reference.partition("#")
        target = msgspec.json.decode((FOLDER / name).read_bytes()) if name else DOCUMENT
        for step in pointer.strip("/").split("/") if pointer else ():
            target = target[step]
        assert isinstance(target, dict)


def test_no_message_of_publishers_has_an_empty_payload_or_says_nothing_of_its_envelope():
    for name, message in DOCUMENT["components"]["messages"].items():
        payload = message["payload"]
        assert "$ref" in payload or "properties" in payload or payload == {"type": "null"}, name
        if name.startswith(("public.", "job.")) and "schemas/" not in payload.get("$ref", "#")[:9]:
            assert message["headers"]["required"], name
    job = DOCUMENT["components"]["messages"]["job.submit.v1"]["payload"]
    properties = DOCUMENT["components"]["schemas"][job["$ref"].rpartition("/")[2]]["properties"]
    assert set(JOB) <= set(properties)
    assert isinstance(read_job(dict(JOB)), JobFile)


def test_a_publisher_has_an_operation_for_all_that_its_credential_allows_and_no_more():
    allowed = publisher_permissions("ads", "etl", durable=True)
    verbs = {"submit", "cancel", "pause", "resume"}
    doors = {"request", "post", "posted"}
    named = set()
    for name, operation in DOCUMENT["operations"].items():
        if name.startswith("publisher."):
            channel = DOCUMENT["channels"][operation["channel"]["$ref"].rpartition("/")[2]]
            address = channel["address"].format(project="ads", publisher="etl")
            may = allowed.publish if operation["action"] == "receive" else allowed.subscribe
            assert any(matches(pattern, address) for pattern in may), name
            named.add(operation["channel"]["$ref"].rpartition("/")[2])
    assert {f"{door}.job.{verb}" for door in doors for verb in verbs} <= named
    assert "outcomes.next" in named
    assert {f"job.{verb}" for verb in verbs} == set(asyncapi.VERBS)


def test_servers_say_how_one_signs_in():
    schemes = DOCUMENT["components"]["securitySchemes"]
    for server in DOCUMENT["servers"].values():
        (scheme,) = server["security"]
        assert scheme["$ref"].rpartition("/")[2] in schemes


def _found(value, key):
    if isinstance(value, dict):
        yield from ([value[key]] if isinstance(value.get(key), str) else [])
        value = list(value.values())
    for item in value if isinstance(value, list) else ():
        yield from _found(item, key)

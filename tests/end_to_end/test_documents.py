"""What administrators apply and delete, on a real platform: refused while in use, and replayed."""

import pytest
import yaml

from headrace.client import NotFound, Refused

TEMPLATE = {
    "type": "template", "name": "quick", "project": "trial", "job": {"command": ["true"]},
}  # fmt: skip
OURS = {"command": "true", "project": "trial"}
PROJECT = {"type": "project", "name": "trial"}


def test_a_project_with_its_template_comes_goes_and_comes_again(platform):
    client = platform.client("trial")
    for document in (PROJECT, TEMPLATE, {"type": "volume", "name": "gone", "path": "/tmp"}):
        client.apply(document)
    done = client.submit({"template": "quick", "project": "trial"}).job
    assert platform.ended(done)["state"] == "succeeded"
    at = client.template("quick").position
    assert client.job(done).spec["template_at"] == at
    waits = client.submit(OURS | {"resources": {"gpus": "B200:1"}, "volumes": ["gone:/x"]}).job
    for kind, name in (("project", "trial"), ("volume", "gone")):
        with pytest.raises(Refused, match="has not ended"):
            client.delete(kind, name)
    client.cancel(waits)
    platform.ended(waits)
    assert client.delete("volume", "gone").accepted
    assert client.delete("project", "trial").accepted
    assert "trial" not in {row.project for row in client.projects()}
    assert client.templates("trial") == []
    with pytest.raises(Refused, match="does not exist"):
        client.submit(OURS)
    assert client.job(done).job.state == "succeeded"
    client.apply(PROJECT)
    assert platform.ended(client.submit(OURS).job)["state"] == "succeeded"
    assert client.rebuild().differs == []
    client.delete("project", "trial")


EVERY_KIND = (
    ("department", {"type": "department", "name": "lab", "gpus": {"quota": 2}}),
    ("project", {"type": "project", "name": "bench-a", "department": "lab", "gpus": {"quota": 1}}),
    ("pool", {"type": "pool", "name": "aside", "nodes": {"label": "rack=r9"}}),
    ("volume", {"type": "volume", "name": "kept", "path": "/tmp"}),
    ("template", {"type": "template", "name": "quick", "project": "bench-a", "job": {"priority": "high"}}),
    ("webhook", {"type": "webhook", "name": "told", "project": "bench-a",
                 "url": "https://example.org/x", "events": ["job.finished"]}),
)  # fmt: skip


def test_every_document_comes_back_as_it_was_applied_and_changes_nothing_applied_again(platform):
    client = platform.client("bench-a")
    for kind, document in EVERY_KIND:
        client.apply(document)
        shown = platform.headrace("get", kind, document["name"], "-p", "bench-a").stdout
        assert yaml.safe_load(shown) == document
        assert "unchanged" in platform.headrace("apply", "-f", "-", stdin=shown).stdout
    client.apply({"type": "volume", "name": "kept", "path": "/var/tmp"})
    assert client.document("volume", "kept")["path"] == "/var/tmp"
    for kind, document in reversed(EVERY_KIND):
        client.delete(kind, document["name"], project=document.get("project", ""))
        with pytest.raises(NotFound, match=f"no document of {kind} {document['name']}"):
            client.document(kind, document["name"], project=document.get("project", ""))


def test_a_document_that_is_too_large_is_refused_with_the_limit(platform):
    job = {"command": ["x" * 100_000]}
    with pytest.raises(Refused, match="a document has at most 65536 bytes"):
        platform.client("default").apply({"type": "template", "name": "huge", "job": job})

"""What administrators apply and delete, on a real platform: refused while in use, and replayed."""

import pytest

from headrace.client import Refused

TEMPLATE = {
    "type": "template", "template": "quick", "project": "trial", "job": {"command": ["true"]},
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

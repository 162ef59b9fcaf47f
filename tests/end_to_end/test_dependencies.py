"""Jobs after jobs, on the whole platform."""

from __future__ import annotations

from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"
FIRST = '{name: features, command: "while [ ! -e %s ]; do sleep 0.1; done; exit %d"}'
LATE = "{name: late, command: echo trained, after: [{job: %s, state: %s}]}"


def test_the_pipeline_of_the_examples_runs_in_its_order(platform):
    platform.wait_ready()
    said = platform.headrace("submit", "--wait", str(EXAMPLES / "pipeline.yaml")).stdout
    first, second = (platform.json("describe", line.split()[0]) for line in said.splitlines()[:2])
    assert (first["job"]["state"], second["job"]["state"]) == ("succeeded", "succeeded")
    assert first["job"]["ended_at_us"] <= second["job"]["started_at_us"]


def submitted(platform, path, text: str) -> str:
    path.write_text(text)
    return platform.headrace("submit", str(path)).stdout.split()[0]


def test_jobs_start_when_another_has_ended_as_they_want_and_end_when_it_has_not(platform, tmp_path):
    platform.wait_ready()
    gate = tmp_path / "go"
    first = submitted(platform, tmp_path / "a.yaml", FIRST % (gate, 3))
    hopeful = submitted(platform, tmp_path / "b.yaml", LATE % (first, "succeeded"))
    mender = submitted(platform, tmp_path / "c.yaml", LATE % (first, "failed"))
    chained = submitted(platform, tmp_path / "d.yaml", LATE % (hopeful, "succeeded"))
    rows = {row["job"]: row for row in platform.json("ps")}
    assert rows[hopeful]["why"] == f"waits for job {first} to succeed"
    assert f"waits for job {first} to fail" in platform.headrace("why", mender).stdout
    gate.touch()
    assert platform.ended(mender)["state"] == "succeeded"
    for job, on, how in ((hopeful, first, "failed"), (chained, hopeful, "cancelled")):
        row = platform.ended(job)
        assert row["state"] == "cancelled"
        assert row["why"] == f"dependency: {on} was to succeed and has ended as {how}"
    refused = platform.headrace("submit", str(tmp_path / "b.yaml"), check=False)
    assert f"{first} was to succeed and has ended as failed" in refused.stderr

"""Workers that fail, on the whole platform: tried again, and told why in the end."""

from __future__ import annotations

JOB = """
name: flaky
nodes: 2
resources: {gpus: 1}
retry: {on: [error], attempts: 2, backoff: 1s}
command: |
  echo "attempt $HEADRACE_ATTEMPT of rank $HEADRACE_RANK"
  if [ $HEADRACE_RANK = 1 ]; then echo "loss is nan" >&2; exit 3; fi
  sleep 300 & wait
"""


def test_a_rank_that_fails_is_named_with_its_last_lines_when_attempts_are_used_up(
    platform, tmp_path
):
    platform.wait_ready()
    path = tmp_path / "flaky.yaml"
    path.write_text(JOB)
    done = platform.headrace("submit", str(path), "--wait", check=False)
    assert done.returncode == 3
    job = next(row["job"] for row in platform.json("ps", "--all") if row["name"] == "flaky")

    row = platform.ended(job)
    assert (row["state"], row["attempt"], row["exit_code"]) == ("failed", 2, 3)
    told = platform.headrace("describe", job).stdout
    tail = told.partition("last lines of rank 1 on ")[2].splitlines()[1:3]
    assert tail == ["    attempt 2 of rank 1", "    loss is nan"]
    kinds = [
        line.split()[2]
        for line in platform.headrace("events", "--job", job, "-o", "wide").stdout.splitlines()
    ]
    assert kinds.count("job.retries.v1") == 1
    platform.wait_free()

"""An elastic gang on the whole platform: it grows, makes room, and grows again."""

from __future__ import annotations

from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"
PRETRAIN = """
name: pretrain
project: vision
command: 'echo "pid $$ of $HEADRACE_NUM_NODES_MIN..$HEADRACE_NUM_NODES_MAX"; sleep 300 & wait'
nodes: 1..2
resources: {gpus: 8}
"""


def test_a_gang_makes_room_and_grows_again_while_its_first_worker_runs_on(platform, tmp_path):
    platform.wait_ready()
    platform.wait_free()  # or it would start small
    platform.headrace("apply", "-f", str(EXAMPLES / "fleet.yaml"))
    path = tmp_path / "pretrain.yaml"
    path.write_text(PRETRAIN)
    job = platform.headrace("submit", str(path)).stdout.split()[0]

    def runs_on_both() -> bool:
        row = platform.described(job)["job"]
        return row["state"] == "running" and row["why"] == "runs on 2 of 1..2 nodes"

    platform.wait(runs_on_both, "a gang of two")
    platform.headrace("run", "--project", "ads", "--gpus", "8", "--", "true")
    platform.wait(runs_on_both, "a gang of two again")

    said = [
        line.split()[2]
        for line in platform.headrace("events", "--job", job, "-o", "wide").stdout.splitlines()
    ]
    changes = [kind for kind in said if kind.split(".")[0] in ("gang", "workers")]
    assert changes == [
        "gang.placed.v1", "gang.shrunk.v1", "workers.released.v1", "gang.grown.v1",
    ]  # fmt: skip
    platform.wait(lambda: len(platform.described(job)["attempts"][0]["workers"]) == 3)
    printed = platform.headrace("logs", job, "--rank", "0").stdout
    assert printed.count("pid ") == 1
    assert printed.rstrip().endswith("of 1..2")
    assert "2 of 1..2 nodes" in platform.headrace("why", job).stdout
    platform.headrace("cancel", job)
    assert platform.ended(job)["state"] == "cancelled"

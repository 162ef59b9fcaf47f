"""Jobs that save themselves, on the whole platform: asked at their ends, and going on elsewhere."""

from __future__ import annotations

SAVES = """
name: saves
checkpoint: {signal: USR1, grace: 60s}
resources: {gpus: 1}
command: |
  at=$(cat "$HEADRACE_CHECKPOINT_DIR/step" 2> /dev/null || echo 0)
  save() { echo $((at + 1)) > "$HEADRACE_CHECKPOINT_DIR/step"; cat "$HEADRACE_STOP_REASON_FILE"; exit 3; }
  trap save USR1
  echo "attempt $HEADRACE_ATTEMPT goes on at $at"
  while :; do sleep 0.1; done
"""


def test_what_a_job_saved_when_its_node_was_drained_is_there_on_the_next(platform, tmp_path):
    platform.wait_ready()
    path = tmp_path / "saves.yaml"
    path.write_text(SAVES)
    job = platform.headrace("submit", str(path)).stdout.split()[0]

    def says(text):
        platform.wait(lambda: text in platform.headrace("logs", job).stdout, text)

    says("attempt 1 goes on at 0")
    (worker,) = platform.described(job)["attempts"][-1]["workers"]
    platform.headrace("node", "drain", worker["node"], "--yes")
    try:
        says("attempt 2 goes on at 1")
    finally:
        platform.headrace("node", "uncordon", worker["node"])
    (again,) = platform.described(job)["attempts"][-1]["workers"]
    assert again["node"] != worker["node"]

    platform.headrace("cancel", job)

    assert platform.ended(job)["state"] == "cancelled"
    assert platform.headrace("logs", job).stdout.splitlines()[-1].endswith("cancelled")
    platform.wait_free()

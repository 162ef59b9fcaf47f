"""What goes wrong in gangs, on the whole platform: one reason, the right rank's last lines, and the
GPUs back in the pool.
"""

from __future__ import annotations

from pathlib import Path

from .conftest import Platform

DISAGREE = """
name: disagree
nodes: 2
resources: {gpus: 8}
command: |
  if [ $HEADRACE_RANK = 0 ]; then echo "done after 10 steps"; exit 0; fi
  echo "waits for step 11 of its peer"
  sleep 1
  echo "peer has gone" >&2; exit 4
"""
TALKATIVE = """
name: talkative
processes_per_node: per-gpu
resources: {gpus: 2}
command: |
  if [ $LOCAL_RANK = 1 ]; then seq 20; touch told; exec sleep 300; fi
  until [ -e told ]; do sleep 0.1; done
  echo "loss is nan" >&2; exit 5
"""
VANISHED = """
name: vanished
nodes: 2
volumes: [fleeting:data]
resources: {gpus: 8}
command: ls data
"""


def failed(platform: Platform, path: Path, text: str) -> str:
    """What is told of a job that fails, once its GPUs are free."""
    path.write_text(text)
    done = platform.headrace("submit", str(path), "--wait", check=False)
    assert done.returncode != 0
    job = done.stdout.split()[0]
    assert platform.ended(job)["state"] == "failed"
    platform.wait_free()
    return platform.headrace("describe", job).stdout


def test_of_ranks_that_disagree_the_one_that_failed_tells_why(platform, tmp_path: Path) -> None:
    platform.wait_ready()
    told = failed(platform, tmp_path / "job.yaml", DISAGREE)
    assert "rank 1  n2  exited  exit 4" in told
    tail = told.partition("last lines of rank 1 on ")[2].splitlines()[1:4]
    assert tail[:2] == ["    waits for step 11 of its peer", "    peer has gone"]
    assert tail[2].startswith("  wants ")


def test_of_the_processes_of_a_worker_the_one_that_failed_tells_why(
    platform, tmp_path: Path
) -> None:
    platform.wait_ready()
    told = failed(platform, tmp_path / "job.yaml", TALKATIVE)
    assert "rank 0  n1  exited  exit 5" in told
    tail = told.partition("last lines of rank 0 on ")[2].splitlines()[1:3]
    assert tail[0] == "    loss is nan"
    assert tail[1].startswith("  wants ")


def test_a_volume_that_vanishes_is_the_one_reason(platform, tmp_path: Path) -> None:
    platform.wait_ready()
    folder = tmp_path / "data"
    folder.mkdir()
    (tmp_path / "volume.yaml").write_text(f"type: volume\nname: fleeting\npath: {folder}\n")
    platform.headrace("apply", "-f", str(tmp_path / "volume.yaml"))
    folder.rmdir()
    told = failed(platform, tmp_path / "job.yaml", VANISHED)
    assert f"volume fleeting is not on this node: there is no folder {folder}" in told

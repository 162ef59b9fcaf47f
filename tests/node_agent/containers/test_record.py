"""The folder of an attempt that runs in a container."""

from pathlib import Path

from headrace.node_agent.containers import record
from headrace.node_agent.folders import Intent
from headrace.node_agent.machine import Workplace

INTENT = Intent(
    version=1, boot="b", pid=0, job="a", attempt=1, rank=0, project="p", traceparent="",
    enforcement="none", marker="m", devices=[],
)  # fmt: skip


def test_code_and_what_earlier_jobs_left_are_where_the_container_shows_them(tmp_path: Path) -> None:
    for name in ("code", "first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").write_text(name)
    moves = ((str(tmp_path / "first"), "work/in/0"), (str(tmp_path / "second"), "inputs/1"))
    place = Workplace(tree=str(tmp_path / "code"), moves=moves)
    folder = tmp_path / "attempt"
    record.prepare(
        folder, INTENT, record.Kept(image="busybox", grace_s=1), place, files={}, account=None
    )
    found = {path: (folder / path / "x").read_text() for path in ("work", "work/in/0", "inputs/1")}
    assert found == {"work": "code", "work/in/0": "first", "inputs/1": "second"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["attempt"]

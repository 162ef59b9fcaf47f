"""Whoever has more rights than a job acts in the job's folders through one door only."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from tests.architecture import doors, sources

AGENT = "services/headrace/node_agent"
THE_DOOR = tuple(
    f"{AGENT}/supervision/{name}.py" for name in ("beneath", "mountpoints", "removing")
)
# Who knows one of these acts in folders that a job can write.
OF_JOBS = {"WORK", "OUTPUT", "REPORTS", "INPUTS", "SESSIONS", "Folder", "remove"}
FROM = ("supervision.protocol", "supervision.beneath")

# Operations on paths that are meant there, each with the reason why no job can lead them elsewhere.
IN_ATTEMPT = "the attempt's own folder, in which only the node puts names"
FETCHED = "what the node fetched, below a folder that only root enters"
IN_SETUPS = "the folder of setups and their locks, in which only the node puts names"
IN_SESSIONS = "a session's folder, in which only the node puts names, and /proc"
MEANT = {
    "containers/machine.py": ("the folder of all attempts", ".mkdir"),
    "containers/record.py": (IN_ATTEMPT, "kernel.read kernel.write open os.rename .mkdir .read_bytes .stat"),
    "devices/simulated.py": ("names in its folder, and /proc", ".chmod .mkdir kernel.read os.listdir os.lstat os.readlink"),
    "folders.py": (
        IN_ATTEMPT, ".iterdir .lstat .mkdir .stat os.scandir kernel.read kernel.write os.open os.rename os.truncate"
    ),
    "session_programs.py": (IN_SESSIONS, ".mkdir .read_bytes .read_text kernel.write os.mkfifo os.open"),
    "session_ports.py": ("/proc", "open os.listdir os.readlink"),
    "supervision/confinement.py": (
        "control groups", "kernel.read kernel.write os.chmod os.chown os.mkdir os.path.exists os.rmdir"
    ),
    "start_spec.py": ("whether the node has a shared place at all", "os.path.isdir"),
    "supervision/namespaces.py": (
        "what the agent says is hidden and shown, before any program of the job runs",
        (
            "kernel.read kernel.write os.chmod os.lstat os.mkdir os.open os.path.exists os.path.isdir"
            " os.readlink os.stat"
        ),
    ),
    "supervision/rehearsal.py": ("a folder in which no job runs", "os.mkdir os.open"),
    "supervision/sessions.py": (
        IN_SESSIONS,
        "kernel.read kernel.write os.listdir os.open os.path.exists os.readlink os.rename",
    ),
    "supervision/terminals.py": ("the machine's terminals, and those below a root that was held", "os.open .open"),
    "supervision/setting_up.py": (IN_SETUPS, "open os.chmod os.makedirs os.open os.utime"),
    "supervision/shim.py": (IN_ATTEMPT, "kernel.read kernel.write"),
    "workplaces/gathering.py": ("the link itself, by its descriptor", "os.readlink"),
    "workplaces/leaving.py": (IN_ATTEMPT, ".exists"),
    "workplaces/mounting.py": (
        "looks whether a volume is there", "os.listdir os.path.isdir os.path.realpath"
    ),
    "workplaces/repositories.py": (FETCHED, ".exists .glob .mkdir .stat os.utime"),
    "workplaces/trees.py": (
        FETCHED, ".exists .glob .iterdir .lstat .mkdir .rename os.listdir os.utime"
    ),
    "workplaces/preparing.py": (FETCHED, ".mkdir"),
    "workplaces/setups.py": (
        f"{IN_SETUPS}, and interpreters", ".glob .open .stat .unlink os.path.realpath os.stat"
    ),
}  # fmt: skip


def test_what_acts_in_folders_of_jobs_follows_no_path_there() -> None:
    found = {
        sources.name_of(path).removeprefix(f"{AGENT}/"): set(doors.path_operations(tree))
        for path in sources.production_files()
        if _knows_folders_of_jobs(path, tree := sources.tree_of(path))
    }
    meant = {name: set(words.split()) for name, (_, words) in MEANT.items()}

    assert {name: of for name, of in found.items() if of - meant.get(name, set())} == {}
    assert {name: of for name, of in meant.items() if of - found.get(name, set())} == {}, (
        "an exception is not needed any more"
    )


def _knows_folders_of_jobs(path: Path, tree: ast.Module) -> bool:
    name = sources.name_of(path)
    return name.startswith(AGENT) and name not in THE_DOOR and bool(_imported(tree) & OF_JOBS)


def _imported(tree: ast.Module) -> set[str]:
    froms = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {each.name for node in froms if str(node.module).endswith(FROM) for each in node.names}


def test_the_modules_that_act_there_are_found() -> None:
    known = [sources.name_of(path) for path in sources.production_files()
             if _knows_folders_of_jobs(path, sources.tree_of(path))]  # fmt: skip

    for name in ("workplaces/leaving.py", "workplaces/gathering.py", "supervision/workplace.py"):
        assert f"{AGENT}/{name}" in known


@pytest.mark.parametrize(
    "source",
    [
        "open(path)",
        "os.rename(a, b)",
        "os.open(path, os.O_RDONLY)",
        "os.chown(path, 1, 1)",
        "os.walk(folder)",
        "os.path.exists(path)",
        "shutil.rmtree(folder)",
        "kernel.write(path, b'')",
        "(folder / 'x').write_text('')",
        "Path(folder).mkdir()",
        "from os import rename",
    ],
)
def test_each_operation_on_a_path_is_found(source: str) -> None:
    assert len(list(doors.path_operations(ast.parse(source)))) == 1


def test_what_acts_on_descriptors_and_words_is_let_pass() -> None:
    source = "os.fchown(file, 1, 1); text.replace('a', 'b'); attempt.take(a, b); os.fstat(file)"

    assert list(doors.path_operations(ast.parse(source))) == []

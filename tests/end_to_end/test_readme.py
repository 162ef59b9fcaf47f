"""README's first five minutes are what happens: its commands are run and its output is found."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ELSEWHERE = ("make up", ". .venv", "headrace down")  # tried by the platform's own tests
ID = r"-[a-z0-9]{4}\b"
UUID = r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
DIFFERS = re.compile(
    rf"{UUID}|\b\d+:[0-9a-f]{{4,64}}…?|(?P<id>{ID})|[\d.]+ ?m?s\b|\d+ \.\. [\d ]+|\d+ of (\d+|others)|\bn\d\b"
    r"|\d+ [\d:]+\.\d+|\d+(?= GPUs free| free now| taken)|is \d+$"
)


def session():
    """Each command of the first five minutes with the lines that README shows after it."""
    text = (ROOT / "README.md").read_text()
    block = text.split("## The first five minutes")[1].split("```console\n")[1].split("```")[0]
    commands = []
    for line in block.splitlines():
        if line.startswith("$ "):
            commands.append((line[2:].split("  # ")[0].strip(), []))
        elif line.strip():
            commands[-1][1].append(line)
    return [(said, shown) for said, shown in commands if not said.startswith(ELSEWHERE)]


def pattern(line):
    """A shown line, where ids, times, counts and nodes may be others; of a table's row, only which
    job of which project and type it is: how far it has come differs from time to time.
    """
    row = re.match(r"(\S+)-[a-z0-9]{4} +(\S+) +(training|sweep) ", line)
    if row:
        name, project, kind = row.groups()
        return rf"{re.escape(name)}{ID} +{project} +{kind} .*"
    line, pieces, at = re.sub(" {2,}", " ", line), [], 0
    for found in DIFFERS.finditer(line):
        pieces.append(re.escape(line[at : found.start()]))
        pieces.append(ID if found["id"] else UUID if found[0].startswith("GPU-") else r"[\w .:]+")
        at = found.end()
    return "".join(pieces) + re.escape(line[at:])


@pytest.mark.readme
def test_the_first_five_minutes_are_as_readme_shows_them(new_platform):
    platform = new_platform("--nodes", "2", "--gpus", "simulated:8xH100-80GB")
    platform.wait_ready()
    commands = session()
    assert len(commands) > 8
    for said, shown in commands:
        here = re.sub("headrace (verify|status)", rf"\g<0> --data-dir {platform.data_dir}", said)
        done = subprocess.run(
            ["/bin/bash", "-c", here],
            cwd=ROOT,
            env={**platform.env, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=120,
        )
        printed = re.sub(" {2,}", " ", done.stdout + done.stderr)  # columns are as wide as need be
        for line in shown:
            assert re.search(rf"(?m)^{pattern(line)}$", printed), f"$ {said}\n{line}\n{printed}"
        refused = any(line.startswith("refused") for line in shown)
        assert done.returncode == (120 if refused else 0), f"$ {said}\n{printed}"

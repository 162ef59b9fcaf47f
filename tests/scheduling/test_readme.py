"""The core's page names what there is."""

import re
from pathlib import Path

import pytest

from headrace import scheduling
from headrace.scheduling.actions import ACTIONS
from headrace.scheduling.policies import POLICIES

FOLDER = Path(scheduling.__path__[0])
TEXT = (FOLDER / "README.md").read_text(encoding="utf-8")


def names_under(title: str) -> list[str]:
    section = TEXT.split(f"\n## {title}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)


@pytest.mark.parametrize(
    ("title", "there"),
    [
        ("Actions", list(ACTIONS)),
        ("Policies", sorted(POLICIES)),
        ("Modules", sorted(f.stem for f in FOLDER.glob("*.py") if f.stem != "__init__")),
    ],
)
def test_the_page_names_each(title, there):
    assert names_under(title) == there

"""The folders of an attempt as its worker finds them.

Rule: what was made ready elsewhere on the node is moved here, never copied: the attempt has it alone.
"""

import os
from typing import Any

from headrace.node_agent.supervision.protocol import OUTPUT, REPORTS, WORK


def furnish(spec: dict[str, Any]) -> list[str]:
    """In the attempt's folder: make its working directory and what is beside and linked below it;
    the folders that were made on the way. Raises `OSError`.
    """
    if spec["tree"]:
        os.rename(spec["tree"], WORK)
    else:
        os.mkdir(WORK)
    os.mkdir(OUTPUT)
    os.mkdir(REPORTS)
    made: list[str] = []
    for source, path in spec["moves"]:
        _make_way(path, made)
        os.rename(source, path)
    for path, target in spec["links"]:
        _make_way(f"{WORK}/{path}", made)
        os.symlink(target, f"{WORK}/{path}")
    return made


def _make_way(path: str, made: list[str]) -> None:
    """Make the folders above."""
    parts = path.split("/")
    for end in range(1, len(parts)):
        above = "/".join(parts[:end])
        if not os.path.isdir(above):
            os.mkdir(above)
            made.append(above)

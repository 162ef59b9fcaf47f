"""The folders of an attempt as its worker finds them.

Rule: what was made ready elsewhere on the node is moved here, never copied: the attempt has it alone.
Whoever made it may have put links into it, so that everything is done `beneath`.
"""

from typing import Any

from headrace.node_agent.supervision.beneath import Folder
from headrace.node_agent.supervision.protocol import CHECKPOINT, OUTPUT, REPORTS, WORK


def furnish(attempt: Folder, spec: dict[str, Any]) -> list[str]:
    """In the attempt's folder: make its working directory and what is beside and linked below it;
    what of that the worker is to own. Raises `OSError`.
    """
    if spec["tree"]:
        attempt.take(spec["tree"], WORK)
    else:
        attempt.make(WORK)
    attempt.make(OUTPUT)
    attempt.make(REPORTS)
    made = [WORK, OUTPUT, REPORTS]
    for source, path in spec["moves"]:
        way = attempt.make_way(path)
        made += way if path.startswith(f"{WORK}/") else []  # what will be mounted stays the node's
        attempt.take(source, path)
    if not attempt.has(CHECKPOINT):
        attempt.make(CHECKPOINT)
        made.append(CHECKPOINT)
    for path, target in spec["links"]:
        made += attempt.make_way(f"{WORK}/{path}")
        attempt.link(target, f"{WORK}/{path}")
    return made

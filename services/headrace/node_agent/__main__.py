"""`python -m headrace.node_agent`: the agent's process, from its environment.

`--stop-all NODE_DIR` ends every attempt found in a node's folder and the launcher instead.
"""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> None:
    """Run what the command line asks for."""
    match sys.argv[1:]:
        case []:
            from headrace.node_agent.process import run

            run()
        case ["--stop-all", node_dir]:
            from headrace.node_agent.stopping import stop_all

            ended = stop_all(Path(node_dir).absolute())
            print(f"{ended} attempt{'' if ended == 1 else 's'} ended")
        case _:
            raise SystemExit("usage: python -m headrace.node_agent [--stop-all NODE_DIR]")


if __name__ == "__main__":
    main()

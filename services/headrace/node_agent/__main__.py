"""`python -m headrace.node_agent`: the agent's process, from its environment.

`--join NODE_DIR` carries out the order to join that is in a node's folder, and says what it has; with
`--reserve` it notes in /etc/subuid and /etc/subgid which accounts are for jobs;
`--doctor table|json [URL]` looks whether this machine can be a good node, with `--security` instead of
the address what does not keep jobs apart or others out of it;
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
        case ["--join", node_dir, *more] if more in ([], ["--reserve"]):
            from headrace.node_agent.joining_aloud import join_aloud

            raise SystemExit(join_aloud(Path(node_dir).absolute(), reserves=bool(more)))
        case ["--doctor", output, "--security"]:
            from headrace.node_agent.doctor.examining import examine_weak_spots

            raise SystemExit(examine_weak_spots(output))
        case ["--doctor", output, *head]:
            from headrace.node_agent.doctor.examining import examine

            raise SystemExit(examine("".join(head), output))
        case ["--stop-all", node_dir]:
            from headrace.node_agent.stopping import stop_all

            ended = stop_all(Path(node_dir).absolute())
            print(f"{ended} attempt{'' if ended == 1 else 's'} ended")
        case _:
            raise SystemExit(
                "usage: python -m headrace.node_agent"
                " [--join NODE_DIR [--reserve] | --stop-all NODE_DIR | --doctor table|json [URL | --security]]"
            )


if __name__ == "__main__":
    main()

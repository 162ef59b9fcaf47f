"""Starts the launcher: `python -I -S .../supervision NODE_DIR`."""

import os
import sys

if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(here))))
    from headrace.node_agent.supervision.launcher import main

    main(sys.argv[1])

"""Starts the launcher: `python -I -S .../supervision NODE_DIR`; a fence (see there) where the first
word is `--fence`, a trial of namespaces where it is `--try-namespaces`.
"""

import os
import sys

if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(here))))
    if sys.argv[1] == "--fence":
        from headrace.node_agent.supervision.fence import watch

        watch(*sys.argv[2:])
    elif sys.argv[1] == "--try-namespaces":
        from headrace.node_agent.supervision.namespaces import try_out

        try_out(sys.argv[2])
    else:
        from headrace.node_agent.supervision.launcher import main

        main(sys.argv[1])

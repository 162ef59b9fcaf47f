"""Programs that are put into a worker's own folder and run with its rights.

Rule: each is one module of Python's standard library alone, because a worker's interpreter is the
job's, or a script of bash; its text is read once, when the agent starts.
"""

from __future__ import annotations

from pathlib import Path

SHEBANG = "#!/usr/bin/env python3\n"
SETUP_ENVIRONMENT = (Path(__file__).parent / "setup_environment.py").read_text()
GANG_LAUNCH = SHEBANG + (Path(__file__).parent / "gang_launch.py").read_text()
SLURM_COMMANDS = (Path(__file__).parent / "slurm_commands.sh").read_text()

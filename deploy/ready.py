#!/usr/bin/env python3
"""Whether the process of Headrace in this container is ready: `python ready.py`, for a health check."""

import os
import sys
from pathlib import Path
from urllib.request import urlopen

ports = [path.read_text() for path in Path(os.environ["HEADRACE_RUN_DIR"]).glob("*.port")]
for port in ports:
    urlopen(f"http://127.0.0.1:{int(port)}/readyz", timeout=4).close()
sys.exit(0 if ports else "it does not listen yet")

"""Starts that the launcher makes itself before it forks any.

Rule: they change nothing but memory. When code first runs, Python notes what it finds: attributes by type,
instructions for the types that it meets. In a process that was just forked, every page that is written to is
copied first: that was a fifth of what a start cost. What was run here is noted already, once for all
shims. Source: PEP 659, and `struct type_cache` in CPython's pycore_typeobject.h.
"""

import os
import sys

from headrace.node_agent.supervision import kernel, processes, shim
from headrace.node_agent.supervision.beneath import remove
from headrace.node_agent.supervision.namespaces import FILES_MAX, ROOT, TMP, Namespaces, View
from headrace.node_agent.supervision.protocol import WORK, Start

TIMES = 3  # more gained nothing
FOLDER = "rehearsal"  # in the node's
_COMMAND, _ENV = ["true"], {"PATH": os.defpath}


def rehearse(boot: str) -> None:
    """Run what starts an attempt, with `shim.SIGNALS` blocked and without children; what cannot be done here
    is left out.
    """
    here, null = os.getcwd(), os.open(os.devnull, os.O_RDWR)
    try:
        remove(FOLDER)
        os.mkdir(FOLDER, 0o700)
        for number in range(TIMES):
            shim.supervise(_start(f"{FOLDER}/{number}"), boot, lambda _line: None)
            if os.geteuid() == 0 and kernel.CAN_SPLIT_ACCOUNTS:
                _make_namespaces(null)
            os.chdir(here)
    except (OSError, processes.CannotStart) as error:
        sys.stderr.write(f"WARNING rehearsal {error}\n")
    finally:
        os.closerange(null, FILES_MAX)  # and whatever was opened since, which ends with a shim
        os.chdir(here)
        remove(FOLDER)


def _make_namespaces(null: int) -> None:
    os.mkdir(TMP)
    attempt, streams = os.getcwd(), (null, null, null)
    view: View = {
        "kind": ROOT, "hidden": [attempt], "shown": [[f"{attempt}/{WORK}", True]], "named": [], "asked": [],
        "refused": [], "shm_bytes": 0, "shares_memory": False, "names": ["", ""], "group": "",
        "scopes_sockets": False,
    }  # fmt: skip
    processes.start_beside(_COMMAND, _ENV, "/", streams, Namespaces(view, []).make)
    os.wait()


def _start(folder: str) -> Start:
    plan = {
        "level": "", "groups": [], "joined": "", "oom": "", "memory_bytes": 0, "account": None,
        "filter": None, "view": None, "mounts": [],
    }  # fmt: skip
    return {
        "folder": folder, "meant": "{}", "job": "", "attempt": 0, "rank": 0, "devices": [],
        "command": _COMMAND, "env": _ENV, "processes": [{}], "files": {}, "cwd": "", "tree": "",
        "moves": [], "links": [], "setup": {}, "confinement": plan, "exhausted": (),
        "output_bytes_max": 0, "journal": "", "grace_s": 0, "max_duration_s": 0,
        "replace_after_s": 0, "checkpoint_signal": "", "checkpoint_grace_s": 0,
    }  # fmt: skip

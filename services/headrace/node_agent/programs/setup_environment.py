"""Run by the interpreter that a job asked for, in the job's account: its environment.

    make FOLDER [isolated]     a virtual environment in FOLDER/venv
    keep FOLDER WORK SINCE     copy what changed in WORK since then (ns) to FOLDER/changes
    lay FOLDER WORK            copy that into another attempt's WORK

Rule: the standard library alone, of any Python from 3.8 on; what it prints is in the job's log.
"""

import os
import shutil
import stat
import sys
import sysconfig
import venv

PIP = """#!/bin/sh
# pip comes into this environment when it is called for the first time
here=$(dirname "$0")
"$here/python" -Im ensurepip --upgrade --default-pip >/dev/null || exit 1
exec "$here/python" -Im pip "$@"
"""


def make(folder: str, isolated: str = "") -> None:
    """What is installed from here on lands in the environment; unless it is isolated, it has what
    the interpreter had.
    """
    where = os.path.join(folder, "venv")
    venv.EnvBuilder(system_site_packages=not isolated, symlinks=True).create(where)
    version = "python{}.{}".format(*sys.version_info[:2])
    library = os.path.join(where, "lib", version, "site-packages")
    if not isolated and sys.prefix != sys.base_prefix:
        with open(os.path.join(library, "interpreter.pth"), "w") as file:
            file.write(sysconfig.get_path("purelib") + "\n")
    for name in ("pip", "pip3"):
        path = os.path.join(where, "bin", name)
        with open(path, "w") as file:
            file.write(PIP)
        os.chmod(path, 0o755)  # noqa: S103  (a program)


def keep(folder: str, work: str, since: str) -> None:
    """What the setup wrote into the working directory is a part of its result."""
    changes = os.path.join(folder, "changes")
    for above, _, names in os.walk(work):
        for name in names:
            path = os.path.join(above, name)
            about = os.lstat(path)
            is_kept = stat.S_ISREG(about.st_mode) or stat.S_ISLNK(about.st_mode)
            if is_kept and about.st_ctime_ns >= int(since):
                target = os.path.join(changes, os.path.relpath(path, work))
                os.makedirs(os.path.dirname(target), exist_ok=True)
                shutil.copy2(path, target, follow_symlinks=False)


def lay(folder: str, work: str) -> None:
    """As if the setup had run here."""
    changes = os.path.join(folder, "changes")
    shutil.copytree(changes, work, symlinks=True, dirs_exist_ok=True)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])

"""Platforms of a person who has no rights on the machine, though the tests may run as root.

Rule: the person's platform is real: its processes have that person's uid, and the interpreter is where
it is for everybody. Where that is in a folder that only root may enter, the person sees it through a
mount of its own, and nobody else sees that mount.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.end_to_end.conftest import Platform

import headrace
from headrace.embedded.accounts import Account, can_reach

PERSON = 7411  # a uid that no user of this machine has
VERB_S_MAX = 120.0
IS_ROOT = os.geteuid() == 0
NO_NAMESPACES = Path(__file__).parent / "no_namespaces.py"
_AS_PERSON = """
set -e
person=$1; shift
while [ "$1" != -- ]; do
    top=/$(echo "$1" | cut -d/ -f2)
    mkdir -p "$0$1" && mount --bind "$1" "$0$1"
    mountpoint -q "$top" || covered="$covered $top"
    paths="$paths $1"; shift
done; shift
for top in $(echo $covered | tr ' ' '\\n' | sort -u); do mount -t tmpfs -o mode=755 none "$top"; done
for path in $paths; do mkdir -p "$path" && mount --bind "$0$path" "$path"; done
mount --bind "$0/passwd" /etc/passwd
exec setpriv --reuid "$person" --regid "$person" --clear-groups -- "$@"
"""


def unreachable() -> list[str]:
    """The folders with our interpreter and sources that the person cannot enter."""
    person = Account("person", PERSON, PERSON)
    needed = (sys.base_prefix, sys.prefix, *(str(Path(path).parent) for path in headrace.__path__))
    return [path for path in dict.fromkeys(needed) if not can_reach(person, Path(path))]


class PersonsPlatform(Platform):
    """A platform of somebody who is not root. Every command line runs as that person, too;
    `has_namespaces`: the kernel lets that person make user namespaces.
    """

    has_namespaces = True

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.person_home = home / "person"
        self.person_home.mkdir()
        for path in (home, self.person_home):
            os.chown(path, PERSON, PERSON)
        self.env |= {"HOME": str(self.person_home), "USER": "person", "LOGNAME": "person"}
        self.env["PYTHONDONTWRITEBYTECODE"] = "1"

    def headrace(
        self, *arguments: str, check: bool = True, stdin: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run one command line as that person."""
        done = subprocess.run(
            [*self.prefix(), sys.executable, "-m", "headrace.cli", *arguments],
            env=self.env,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=VERB_S_MAX,
            cwd=self.person_home,
            check=False,
        )
        assert not check or done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        return done

    def prefix(self) -> tuple[str, ...]:
        """The words that make a command the person's."""
        if not IS_ROOT:
            return ()
        staging = self.home / "staging"
        staging.mkdir(exist_ok=True)
        line = f"person:x:{PERSON}:{PERSON}::{self.person_home}:/bin/sh\n"
        (staging / "passwd").write_text(Path("/etc/passwd").read_text() + line)
        (staging / "passwd").chmod(0o644)
        without = () if self.has_namespaces else (sys.executable, str(NO_NAMESPACES))
        unshare = (*without, "unshare", "--mount", "--propagation", "private")
        return (*unshare, "sh", "-c", _AS_PERSON, str(staging), str(PERSON), *unreachable(), "--")


@contextlib.contextmanager
def persons_folder() -> Iterator[PersonsPlatform]:
    """A platform that is not started yet; it and its data are gone afterwards."""
    home = Path(tempfile.mkdtemp(prefix="headrace-person-"))
    home.chmod(0o755)
    platform = PersonsPlatform(home)
    try:
        yield platform
    finally:
        where = ("--data-dir", str(platform.data_dir))
        platform.headrace("down", *where, "--delete-data", "--yes", check=False)
        shutil.rmtree(home, ignore_errors=True)


@contextlib.contextmanager
def persons_platform(*options: str, **env: str) -> Iterator[PersonsPlatform]:
    """Started as that person; it and its data are gone afterwards."""
    with persons_folder() as platform:
        platform.env |= env
        platform.up("--listen", "127.0.0.1:0", *options)
        yield platform

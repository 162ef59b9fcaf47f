"""Folders that are a commit of a repository, fetched by the node itself.

    bundles/<project>/repositories/<hash of the address>/   what was fetched of one, bare

Rule: the node's own git, with the node's own credentials, over the protocols that the node allows;
nothing asks for a password, and nothing of the repository is run. A commit never changes, so what is
here is not asked for again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import stat
import time
from pathlib import Path

from headrace.bundles.laying import Owner
from headrace.bundles.manifest import name_of
from headrace.node_agent.supervision.beneath import Folder, remove
from headrace.node_agent.workplaces import Unprepared

PROTOCOLS = ("https", "ssh")  # unless the node's settings say otherwise
GIT_S_MAX = 600.0  # of one command
KEPT_MAX = 64  # repositories of one project
IN_USE_S = 3 * GIT_S_MAX  # for so long one may be fetched into, and from, since it was asked for
SAID_MAX = 300  # characters of what git says

_WORKDIR = re.compile(r"git\+([a-z]+)(://.*)@([0-9a-f]+)")
_FULL = 40
_QUIET = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_SSH_COMMAND": "ssh -oBatchMode=yes -oConnectTimeout=15",
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "core.hooksPath",
    "GIT_CONFIG_VALUE_0": "/dev/null",
    "LC_ALL": "C",
}


class Repositories:
    """Checks commits out. `protocols` are those that this node allows."""

    def __init__(self, protocols: tuple[str, ...] = PROTOCOLS) -> None:
        self._protocols = protocols
        self._fetching: dict[Path, asyncio.Lock] = {}

    async def check_out(self, workdir: str, kept: Path, folder: Path, owner: Owner | None) -> str:
        """The commit that `workdir` names, in `folder`; its full name. `kept` is where the project's
        repositories are. Raises `Unprepared`.
        """
        found = _WORKDIR.fullmatch(workdir)
        if found is None:
            raise Unprepared(f"{workdir} is not a repository and a commit")
        protocol, url, commit = found[1], found[1] + found[2], found[3]
        if protocol not in self._protocols:
            allowed = ", ".join(self._protocols)
            raise Unprepared(f"this node fetches repositories over {allowed}, not {protocol}")
        bare = kept / name_of(url.encode())[:32]
        async with self._fetching.setdefault(bare, asyncio.Lock()):
            full = await self._fetched(bare, url, commit)
        try:
            remove(folder)
            await self._git("init", "--quiet", str(folder))
            await self._git("-C", str(folder), "fetch", "--quiet", "--depth=1", bare.as_uri(), full)
            await self._git("-C", str(folder), "checkout", "--quiet", "--detach", full)
            await self._git("-C", str(folder), "remote", "add", "origin", url)
            if owner is not None:
                await asyncio.to_thread(_give, folder, owner)
        except BaseException:
            remove(folder)
            raise
        return full

    async def _fetched(self, bare: Path, url: str, commit: str) -> str:
        """The commit's full name, once the commit is in the bare repository."""
        if not (bare / "HEAD").exists():
            bare.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            await self._git("init", "--quiet", "--bare", str(bare))
        os.utime(bare)
        full = await self._known(bare, commit)
        if not full and len(commit) == _FULL:
            with contextlib.suppress(Unprepared):  # not every server gives what nobody named
                await self._git("-C", str(bare), "fetch", "--quiet", "--depth=1", url, commit)
            full = await self._known(bare, commit)
        if not full:
            what = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
            await self._git("-C", str(bare), "fetch", "--quiet", url, *what)
            full = await self._known(bare, commit)
        if not full:
            raise Unprepared(f"{url} has no commit {commit} in its branches and tags")
        return full

    async def _known(self, bare: Path, commit: str) -> str:
        """The full name of a commit that is here; a branch that is called so is not one."""
        with contextlib.suppress(Unprepared):
            said = await self._git(
                "-C", str(bare), "rev-parse", "--quiet", "--verify", f"{commit}^{{commit}}"
            )
            if said.startswith(commit):
                return said
        return ""

    async def _git(self, *words: str) -> str:
        """What git says. Raises `Unprepared` with its complaint."""
        allowed = ":".join((*self._protocols, "file"))  # from the bare repository to the folder
        try:
            process = await asyncio.create_subprocess_exec(
                "git",
                *words,
                env={**os.environ, **_QUIET, "GIT_ALLOW_PROTOCOL": allowed},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except FileNotFoundError:
            raise Unprepared("this node has no git") from None
        try:
            async with asyncio.timeout(GIT_S_MAX):
                said, complaint = await process.communicate()
        except TimeoutError:
            raise Unprepared(f"git did not end within {GIT_S_MAX:.0f} s") from None
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        if process.returncode:
            raise Unprepared(_in_a_line(complaint.decode(errors="replace")))
        return said.decode(errors="replace").strip()


def _in_a_line(complaint: str) -> str:
    lines = [line.strip() for line in complaint.splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith(("fatal:", "error:"))] or lines
    return f"git: {telling[0] if telling else 'failed'}"[:SAID_MAX]


def tidy(folder: Path, bytes_max: int, *, kept_max: int = KEPT_MAX) -> None:
    """Remove the repositories in this folder that were used longest ago beyond what is kept; none that
    may be in use.
    """
    total_bytes, unused_s = 0, time.time() - IN_USE_S
    used = sorted(((bare.stat().st_mtime, bare) for bare in folder.glob("*")), reverse=True)
    for number, (used_s, bare) in enumerate(used):
        total_bytes += _bytes_in(bare)
        if used_s < unused_s and (number >= kept_max or total_bytes > bytes_max):
            remove(bare)


def _bytes_in(bare: Path) -> int:
    with Folder.at(bare) as folder:
        found = (entry.stat(follow_symlinks=False) for _, some in folder.walk() for entry in some)
        return sum(about.st_size for about in found if stat.S_ISREG(about.st_mode))


def _give(path: Path, owner: Owner) -> None:
    with Folder.at(path) as tree:
        for folder, entries in tree.walk():
            os.fchown(folder.descriptor, *owner)
            for entry in entries:
                folder.hand_over(entry.name, *owner)

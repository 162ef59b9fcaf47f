"""Makes a manifest of what a worker left behind, at the paths that it was asked for.

Rule: whoever wrote there is not trusted: no link is followed, and nothing but files and links that
stay inside is taken. What was not written is left out.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from headrace.bundles.manifest import (
    BadManifest,
    File,
    Manifest,
    check_length,
    check_size,
    leads_out,
    manifest_of,
)
from headrace.bundles.packing import hash_file

OUTPUTS_BYTES_MAX = 20_000_000_000  # of one worker


def gather(folder: Path, paths: tuple[str, ...]) -> tuple[Manifest, dict[str, str]]:
    """What is at these paths below the folder, and where each content is. Raises `BadManifest`,
    `OSError`.
    """
    files: dict[str, File] = {}
    where: dict[str, str] = {}
    for path in paths:
        if _is_reached(folder, path):
            _take(str(folder / path), path, files, where)
    check_size(len(files), sum(file.size for file in files.values()), OUTPUTS_BYTES_MAX)
    return manifest_of(files.values()), where


def _is_reached(folder: Path, path: str) -> bool:
    """Whether something is there, and no link on the way."""
    at = folder
    for part in path.split("/"):
        if at != folder and not stat.S_ISDIR(at.lstat().st_mode):
            return False
        at /= part
        if not os.path.lexists(at):
            return False
    return True


def _take(path: str, name: str, files: dict[str, File], where: dict[str, str]) -> None:
    check_length(name)
    about = os.lstat(path)
    if stat.S_ISDIR(about.st_mode):
        for entry in sorted(os.listdir(path)):
            _take(f"{path}/{entry}", f"{name}/{entry}", files, where)
        return
    try:
        name.encode()
    except UnicodeEncodeError:
        raise BadManifest(f"{name.encode(errors='replace').decode()}: not UTF-8") from None
    if stat.S_ISLNK(about.st_mode):
        target = os.readlink(path)
        if leads_out(name, target):
            raise BadManifest(f"{name} is a link out of the working directory")
        files[name] = File(name, target=target)
    elif stat.S_ISREG(about.st_mode):
        check_size(len(files), sum(file.size for file in files.values()), OUTPUTS_BYTES_MAX)
        digest = hash_file(path)
        executable = bool(about.st_mode & stat.S_IXUSR)
        files[name] = File(name, about.st_size, digest, executable)
        where[digest] = path
    else:
        raise BadManifest(f"{name} is neither a file nor a folder nor a link")

"""A folder as data: which files it has, and what is in them.

Rule: `read_manifest` believes nothing. Whatever it accepts can be written below a folder without
leaving it: no path and no link leads out, no path goes through a link or a file.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import NoReturn

import msgspec

FILES_MAX = 50_000
BUNDLE_BYTES_MAX = 100_000_000  # of a folder that travels with a job
OUTPUTS_BYTES_MAX = 20_000_000_000  # of what one worker left behind, and of one of its files
PATH_BYTES_MAX = 1_024
MANIFEST_BYTES_MAX = 16_777_216

# https://learn.microsoft.com/windows/win32/fileio/naming-a-file
_NO_NAME_ON_WINDOWS = re.compile(
    r"""[\\:<>"|?*\x00-\x1f]|[^.][ .]+$|^(con|prn|aux|nul|com\d|lpt\d)(\.|$)""", re.IGNORECASE
)
_DIGEST = re.compile(r"[0-9a-f]{64}")


class BadManifest(ValueError):
    """It cannot be taken; one line says why."""


class File(msgspec.Struct, frozen=True, array_like=True):
    """One file by its path below the folder, with `/`. A link has a `target` and no content."""

    path: str
    size: int = 0
    digest: str = ""
    executable: bool = False
    target: str = ""


class Manifest(msgspec.Struct, frozen=True, omit_defaults=True):
    """The files in order of their paths."""

    files: tuple[File, ...] = ()

    @property
    def bytes(self) -> int:
        """What its files hold."""
        return sum(file.size for file in self.files)

    def digests(self) -> dict[str, int]:
        """The contents that it needs, each once, with their sizes."""
        return {file.digest: file.size for file in self.files if file.digest}


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(Manifest)


def manifest_of(files: Iterable[File]) -> Manifest:
    """These files, in order."""
    return Manifest(files=tuple(sorted(files, key=lambda file: file.path)))


def below(manifest: Manifest, folder: str) -> list[File]:
    """Its files, in this folder of another one."""
    return [
        File(f"{folder}/{file.path}", file.size, file.digest, file.executable, file.target)
        for file in manifest.files
    ]


def encode_manifest(manifest: Manifest) -> bytes:
    """Its bytes, always the same for the same files."""
    return _ENCODER.encode(manifest)


def name_of(data: bytes) -> str:
    """What bytes are called: their SHA-256 in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def is_name(text: str) -> bool:
    """Whether this can be the name of something: it becomes part of paths."""
    return _DIGEST.fullmatch(text) is not None


def read_manifest(data: bytes, bytes_max: int = BUNDLE_BYTES_MAX) -> Manifest:
    """What somebody sent, if it can be trusted with a folder. Raises `BadManifest`."""
    if len(data) > MANIFEST_BYTES_MAX:
        raise BadManifest(f"a manifest has at most {MANIFEST_BYTES_MAX} bytes")
    try:
        manifest = _DECODER.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadManifest(f"is no manifest: {error}") from None
    check_size(len(manifest.files), manifest.bytes, bytes_max)
    before = ""
    taken: set[str] = set()
    for file in manifest.files:
        _check_file(file)
        if file.path <= before:
            _bad(file, "is not in order")
        before = file.path
        taken.add(file.path)
    for file in manifest.files:
        if any(above in taken for above in parents_of(file.path)):
            _bad(file, "lies below something that is no folder")
    return manifest


def check_windows(manifest: Manifest) -> None:
    """Raises `BadManifest` for what Windows would not write where it belongs: there a backslash and
    a drive's colon lead out of a folder, and some names mean devices.
    """
    for file in manifest.files:
        for part in (*file.path.split("/"), *file.target.split("/")):
            if _NO_NAME_ON_WINDOWS.search(part):
                _bad(file, "cannot be a name on Windows")


def check_size(files: int, size: int, bytes_max: int = BUNDLE_BYTES_MAX) -> None:
    """Raises `BadManifest` for more than travels."""
    if files > FILES_MAX:
        raise BadManifest(f"{files} files; at most {FILES_MAX} travel")
    if size > bytes_max:
        raise BadManifest(f"{size // 1_000_000} MB; at most {bytes_max // 1_000_000} MB travel")


def check_length(path: str) -> None:
    """Raises `BadManifest` for a path that is longer than travels, as in folders without end."""
    if len(path.encode(errors="replace")) > PATH_BYTES_MAX:
        top = path.partition("/")[0]
        raise BadManifest(f"{top} has a path of more than {PATH_BYTES_MAX} bytes; ignore it")


def parents_of(path: str) -> Iterable[str]:
    """`a` and `a/b` for `a/b/c`."""
    at = path.find("/")
    while at >= 0:
        yield path[:at]
        at = path.find("/", at + 1)


def leads_out(path: str, target: str) -> bool:
    """Whether a link at `path` could lead out of the folder. Upwards comes first and no further
    than the folder, so that no link on the way can make it more.
    """
    if target.startswith("/") or not target:
        return True
    parts = [part for part in target.split("/") if part not in ("", ".")]
    up = next((i for i, part in enumerate(parts) if part != ".."), len(parts))
    return up > path.count("/") or ".." in parts[up:]


def _check_file(file: File) -> None:
    parts = file.path.split("/")
    if any(part in ("", ".", "..") for part in parts) or "\0" in file.path:
        _bad(file, "leads out of the folder")
    if len(file.path.encode(errors="replace")) > PATH_BYTES_MAX:
        _bad(file, f"has more than {PATH_BYTES_MAX} bytes")
    if file.target or not file.digest:
        if file.digest or file.size or "\0" in file.target or leads_out(file.path, file.target):
            _bad(file, "is a link out of the folder")
    elif not is_name(file.digest) or file.size < 0:
        _bad(file, "has no proper content")


def _bad(file: File, why: str) -> NoReturn:
    shown = "".join(c if c.isprintable() else "?" for c in file.path[:100])
    raise BadManifest(f"{shown} {why}")

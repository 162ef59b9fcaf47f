"""Sends a folder ahead of the job that works in it.

Rule: what is sent is compared with what was said about it, byte for byte, so that a folder that
changes meanwhile is noticed and looked at anew; it travels as it was at one moment or not at all.
An unchanged folder costs a look at its files and one question.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import msgspec

from headrace.bundles.frames import framed
from headrace.bundles.manifest import BadManifest, Manifest, encode_manifest, name_of
from headrace.bundles.packing import Known, pack
from headrace.client.connection import ClientError, Connection, NotFound
from headrace.client.files_model import BundleAnswer

TRIES_MAX = 4  # of a folder that changes while it is sent
BODY_BYTES = 8_388_608  # of one request; a larger file has one of its own

_ANSWERS = msgspec.json.Decoder(BundleAnswer)
_KNOWN = msgspec.json.Decoder(Known)


class _Changed(Exception):
    """A file is not what it was when it was hashed."""


def send_folder(http: Connection, project: str, folder: Path) -> str:
    """The name of the folder's content, which the platform has from now on. Raises `ClientError`."""
    memory = _memory_of(folder)
    known = _recall(memory)
    changed = ""
    for _ in range(TRIES_MAX):
        try:
            packed = pack(folder, known)
        except BadManifest as error:
            raise ClientError(f"refused: workdir = {folder} — {error}") from None
        if packed.known != known:
            _remember(memory, packed.known)
        try:
            if _is_kept_after_sending(http, project, folder, packed.manifest):
                return name_of(encode_manifest(packed.manifest))
        except _Changed as error:
            changed, known = str(error), {}
    raise ClientError(
        f"refused: workdir = {folder} — {changed or 'it'} changes while it is being sent; "
        "stop what writes there, or list it in .headraceignore"
    )


def _is_kept_after_sending(
    http: Connection, project: str, folder: Path, manifest: Manifest
) -> bool:
    """Send what is missing; whether the platform then has all of it. Raises `_Changed`."""
    data = encode_manifest(manifest)
    base = f"/v1/projects/{quote(project, safe='')}"
    with contextlib.suppress(NotFound):
        http.get(f"{base}/bundles/{name_of(data)}")
        return True
    missing = _ANSWERS.decode(http.send("PUT", f"{base}/bundles", data)).missing
    if not missing:
        return True
    for body in _bodies(folder, manifest, set(missing)):
        http.send("POST", f"{base}/objects", body)
    return not _ANSWERS.decode(http.send("PUT", f"{base}/bundles", data)).missing


def _bodies(folder: Path, manifest: Manifest, missing: set[str]) -> Iterator[bytes]:
    held: list[bytes] = []
    size = 0
    for file in manifest.files:
        if file.digest not in missing:
            continue
        missing.discard(file.digest)
        try:
            data = (folder / file.path).read_bytes()
        except OSError:
            raise _Changed(file.path) from None
        if len(data) != file.size or name_of(data) != file.digest:
            raise _Changed(file.path)
        if held and size + len(data) > BODY_BYTES:
            yield b"".join(held)
            held, size = [], 0
        held.append(framed(file.digest, data))
        size += len(data)
    if held:
        yield b"".join(held)


def _memory_of(folder: Path) -> Path:
    """Where it is remembered what was hashed in this folder."""
    home = os.environ.get("XDG_CACHE_HOME")
    cache = Path(home) if home else Path.home() / ".cache"
    return cache / "headrace" / "folders" / f"{name_of(os.fsencode(folder))[:32]}.json"


def _recall(memory: Path) -> Known:
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        return _KNOWN.decode(memory.read_bytes())
    return {}


def _remember(memory: Path, known: Known) -> None:
    new = memory.with_suffix(f".{os.getpid()}")
    with contextlib.suppress(OSError):  # it costs time, nothing else
        memory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new.write_bytes(msgspec.json.encode(known))
        new.replace(memory)

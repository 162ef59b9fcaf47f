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
from headrace.bundles.manifest import BadManifest, File, encode_manifest, name_of
from headrace.bundles.packing import Known, Packed, Vanished, pack, seen_in
from headrace.client.connection import Connection
from headrace.client.errors import NotFound, Refused
from headrace.client.files_model import BundleAnswer
from headrace.client.model import Answer
from headrace.events import Refusal

TRIES_MAX = 4  # of a folder that changes while it is sent
BODY_BYTES = 8_388_608  # of one request; a larger file has one of its own

_ANSWERS = msgspec.json.Decoder(BundleAnswer)
_KNOWN = msgspec.json.Decoder(Known)


class _Changed(Exception):
    """A file is not what it was when it was hashed."""


def send_folder(http: Connection, project: str, folder: Path) -> str:
    """The name of the folder's content, which the platform has from now on. Raises `ClientError`: `Refused`."""
    memory = _memory_of(folder)
    known = _recall(memory)
    changed = ""
    for _ in range(TRIES_MAX):
        try:
            packed = pack(folder, known)
        except Vanished as error:
            changed = str(error)
            continue
        except BadManifest as error:
            raise _refused(folder, str(error)) from None
        if packed.known != known:
            _remember(memory, packed.known)
        try:
            if _is_kept_after_sending(http, project, folder, packed):
                return name_of(encode_manifest(packed.manifest))
        except _Changed as error:
            changed, known = str(error), {}
    rule = f"{changed or 'it'} changes while it is being sent"
    raise _refused(folder, rule, "stop what writes there, or list it in .headraceignore")


def _refused(folder: Path, rule: str, instead: str = "") -> Refused:
    """As the platform refuses a job file, which it was not even sent."""
    found = Refusal(field="workdir", value=str(folder), rule=rule, instead=instead)
    fields = {name: getattr(found, name) for name in found.__struct_fields__}
    return Refused(Answer(accepted=False, message=str(found), refusal=fields))


def _is_kept_after_sending(http: Connection, project: str, folder: Path, packed: Packed) -> bool:
    """Send what is missing; whether the platform then has all of it. Raises `_Changed`."""
    data = encode_manifest(packed.manifest)
    base = f"/v1/projects/{quote(project, safe='')}"
    with contextlib.suppress(NotFound):
        http.get(f"{base}/bundles/{name_of(data)}")
        return True
    missing = _ANSWERS.decode(http.send("PUT", f"{base}/bundles", data)).missing
    if not missing:
        return True
    for body in _bodies(folder, packed, set(missing)):
        http.send("POST", f"{base}/objects", body)
    return not _ANSWERS.decode(http.send("PUT", f"{base}/bundles", data)).missing


def _bodies(folder: Path, packed: Packed, missing: set[str]) -> Iterator[bytes]:
    held: list[bytes] = []
    size = 0
    for file in packed.manifest.files:
        if file.digest not in missing:
            continue
        missing.discard(file.digest)
        data = _as_held(folder, file, packed) or _read(folder, file)
        if held and size + len(data) > BODY_BYTES:
            yield b"".join(held)
            held, size = [], 0
        held.append(framed(file.digest, data))
        size += len(data)
    if held:
        yield b"".join(held)


def _as_held(folder: Path, file: File, packed: Packed) -> bytes:
    """The content as it was read before, when the file has not changed since; else nothing."""
    data, then = packed.held.get(file.digest), packed.known.get(file.path)
    with contextlib.suppress(OSError):
        if data and then and seen_in(os.lstat(f"{folder}/{file.path}")) == then[:4]:
            return data
    return b""


def _read(folder: Path, file: File) -> bytes:
    """What is in the file. Raises `_Changed` when it is not what was said about it."""
    try:
        data = (folder / file.path).read_bytes()
    except OSError:
        raise _Changed(file.path) from None
    if len(data) != file.size or name_of(data) != file.digest:
        raise _Changed(file.path)
    return data


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

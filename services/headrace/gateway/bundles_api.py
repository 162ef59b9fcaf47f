"""`/v1/projects/{project}/bundles` and `…/objects`: folders that travel with jobs.

Rule: a client asks first whether the folder of that name is here; if not it sends its manifest, then
the contents that are missing, then the manifest again, until nothing is missing. A body is written to
disk as it comes, and what does not match its name is refused. What comes is counted before it is
written, named or not; a project has so many uploads at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from litestar import Request, get, post, put
from litestar.params import FromPath
from litestar.status_codes import HTTP_200_OK

from headrace.bundles.arriving import Arriving
from headrace.bundles.frames import BadFrame, Frames
from headrace.bundles.manifest import (
    BUNDLE_BYTES_MAX,
    MANIFEST_BYTES_MAX,
    BadManifest,
    is_name,
    name_of,
    read_manifest,
)
from headrace.bundles.objects import Damaged
from headrace.client.files_model import BundleAnswer
from headrace.documents.wording import meant
from headrace.gateway.caller import By, Caller, may
from headrace.gateway.errors import BadRequest, Full, NotFound
from headrace.gateway.gateway import Gate, Gateway

BODY_BYTES_MAX = BUNDLE_BYTES_MAX + 16_777_216  # the largest file, or many, with their heads
NAME_SHOWN_MAX = 80
PIECE_BYTES = 262_144  # of a body, looked at together: so much of it is in memory


@get(
    "/projects/{project:str}/bundles/{name:str}",
    summary="Whether a folder is kept here",
    opt=may("submit", "job"),
)
async def has_bundle(
    gateway: Gate, by: By, project: FromPath[str], name: FromPath[str]
) -> BundleAnswer:
    """404 when it is not, or no longer, or not all of it."""
    by.check(project)
    _check(gateway, by, project)
    if not is_name(name) or not gateway.keeper.of(project).has_tree(name):
        raise NotFound(f"no folder {name[:80]} is kept for project {project}")
    return BundleAnswer(bundle=name)


@put(
    "/projects/{project:str}/bundles",
    summary="Bring a folder; the body is its manifest",
    request_max_body_size=MANIFEST_BYTES_MAX,
    opt=may("submit", "job"),
)
async def put_bundle(
    gateway: Gate, by: By, project: FromPath[str], request: Request[Any, Any, Any]
) -> BundleAnswer:
    """The answer says which contents are missing; with none the folder is kept."""
    by.check(project)
    _check(gateway, by, project)
    with gateway.uploads.taken(project):
        body = await request.body()
        try:
            manifest = await asyncio.to_thread(read_manifest, body)
            await _count(gateway, project, len(body), 1)
            missing = await asyncio.to_thread(gateway.keeper.of(project).put_tree, body)
        except BadManifest as error:
            raise BadRequest("workdir", "", str(error)) from error
    sizes = manifest.digests()
    full = await gateway.keeper.room(project, sum(sizes[digest] for digest in missing))
    if full is not None:
        raise Full(full)
    return BundleAnswer(bundle=name_of(body), missing=missing)


@post(
    "/projects/{project:str}/objects",
    summary="Bring contents, framed with their names and sizes",
    request_max_body_size=BODY_BYTES_MAX,
    status_code=HTTP_200_OK,
    opt=may("submit", "job"),
)
async def put_objects(
    gateway: Gate, by: By, project: FromPath[str], request: Request[Any, Any, Any]
) -> BundleAnswer:
    """What has come complete is kept, whatever comes of the rest."""
    by.check(project)
    _check(gateway, by, project)
    with gateway.uploads.taken(project):
        arriving = Arriving(gateway.keeper.of(project))
        frames = Frames(arriving)
        try:
            async for piece in _pieces(request):
                before = frames.contents
                await _count(gateway, project, len(piece), 0)
                await asyncio.to_thread(frames.feed, piece)
                await _count(gateway, project, 0, frames.contents - before)
            frames.close()
        except (BadFrame, Damaged) as error:
            raise BadRequest("workdir", "", str(error)) from error
        finally:
            await asyncio.to_thread(arriving.close)
    return BundleAnswer()


async def _pieces(request: Request[Any, Any, Any]) -> AsyncIterator[bytes]:
    """The body, in pieces worth a thread's time."""
    held: list[bytes] = []
    size = 0
    async for piece in request.stream():
        held.append(piece)
        size += len(piece)
        if size >= PIECE_BYTES:
            yield b"".join(held)
            held, size = [], 0
    if held:
        yield b"".join(held)


async def _count(gateway: Gateway, project: str, size: int, contents: int) -> None:
    """So much more comes. Raises `Full`."""
    full = await gateway.keeper.received(project, size, contents)
    if full is not None:
        raise Full(full)


def _check(gateway: Gateway, by: Caller, project: str) -> None:
    """Raises `BadRequest` for a project that is none: its name becomes part of a path."""
    queues = gateway.projection.queues
    if project in queues and queues[project].kind == "project":
        return
    known = [name for name in queues if queues[name].kind == "project" and by.sees(name)]
    instead = meant(project, "projects", sorted(known), "you see none")
    raise BadRequest("project", project[:NAME_SHOWN_MAX], "does not exist", instead)

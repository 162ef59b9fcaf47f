"""`/v1/jobs/{job}/outputs`: what a job left behind.

Rule: only what the log names is given out, under the project whose job it was; that somebody else's
is read is on record first.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from litestar import get
from litestar.params import FromPath
from litestar.response import Stream

from headrace.bundles.manifest import OUTPUTS_BYTES_MAX, Manifest, encode_manifest
from headrace.bundles.objects import Objects
from headrace.client.files_model import Left, OutputsAnswer
from headrace.gateway.caller import By, may
from headrace.gateway.errors import NotFound
from headrace.gateway.gateway import Gate, Gateway
from headrace.gateway.jobs_api import Index, JobName
from headrace.gateway.projection import Job

PIECE_BYTES = 1_048_576


@get(
    ["/jobs/{job:str}/outputs", "/jobs/{job:str}/{index:int}/outputs"],
    summary="What a job left behind",
    opt=may("read", "logs"),
)
async def job_outputs(gateway: Gate, by: By, job: JobName, index: Index = None) -> OutputsAnswer:
    """That of its last attempt, with the manifests; nothing while it runs. `job` may be a prefix."""
    found = await by.job(job, index)
    await gateway.readings.note(by, found, "outputs")
    left = [
        Left(rank=rank, tree=tree, manifest=encode_manifest(_manifest(gateway, found, tree)))
        for rank, tree in sorted(found.outputs.items())
    ]
    return OutputsAnswer(job=found.job, attempt=found.attempt, left=left)


@get(
    ["/jobs/{job:str}/outputs/{tree:str}", "/jobs/{job:str}/{index:int}/outputs/{tree:str}"],
    summary="The files that one worker left behind, one after the other",
    opt=may("read", "logs"),
)
async def outputs_content(
    gateway: Gate, by: By, job: JobName, tree: FromPath[str], index: Index = None
) -> Stream:
    """Their contents in the order of the manifest, nothing between them."""
    found = await by.job(job, index)
    if tree not in found.outputs.values():
        raise NotFound(f"job {found.job} left nothing of that name behind")
    await gateway.readings.note(by, found, "outputs")
    manifest = _manifest(gateway, found, tree)
    objects = gateway.keeper.of(found.project)
    return Stream(_contents(objects, manifest), media_type="application/octet-stream")


def _manifest(gateway: Gateway, job: Job, tree: str) -> Manifest:
    manifest = gateway.keeper.of(job.project).tree(tree, OUTPUTS_BYTES_MAX)
    if manifest is None:
        raise NotFound(f"what job {job.job} left behind is not kept any more")
    return manifest


async def _contents(objects: Objects, manifest: Manifest) -> AsyncIterator[bytes]:
    for file in manifest.files:
        for offset in range(0, file.size, PIECE_BYTES):
            yield await asyncio.to_thread(objects.read, file.digest, offset, PIECE_BYTES)

"""The container image a job runs in, and what only such a job can ask for.

Rule: a name is checked for its form (Docker's reference grammar: registry, path, tag, digest); whether
the image is to be had is learned where it is pulled.
"""

from __future__ import annotations

import re

from headrace.documents.job_file import JobFile
from headrace.documents.quantities import byte_size
from headrace.documents.refusing import not_yet, refuse

IMAGE_LENGTH_MAX = 512

_HOST = r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?|\[[0-9a-fA-F:]+\])(?::[0-9]{1,5})?"
_PART = r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*"
_TAG, _DIGEST = r"[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127}", r"[a-z0-9]+:[0-9a-f]{32,128}"
_IMAGE = re.compile(rf"(?:{_HOST}/)?{_PART}(?:/{_PART})*(?::{_TAG})?(?:@{_DIGEST})?")


def image_of(job: JobFile) -> str:
    """The image; empty for a job that runs beside containers. Raises `DocumentError`."""
    if not job.image:
        return ""
    if len(job.image) > IMAGE_LENGTH_MAX or not _IMAGE.fullmatch(job.image):
        instead = "pytorch/pytorch:2.13.0, or registry.example.com/team/train@sha256:…"
        refuse("image", "is not the name of an image", value=job.image, instead=instead)
    asked = {"": job.processes_per_node}
    asked |= {f"roles.{name}.": role.processes_per_node for name, role in job.roles.items()}
    for path, value in asked.items():
        if value == "per-gpu":
            instead = "1, and let the command start them: torchrun --nproc-per-node=gpu train.py"
            not_yet(f"{path}processes_per_node", value="per-gpu", instead=instead)
    return job.image


def shm_bytes(job: JobFile) -> int:
    """How large its /dev/shm is; 0: as the node has it. Raises `DocumentError`."""
    for name, role in job.roles.items():
        if role.resources.shm:
            not_yet(f"roles.{name}.resources.shm", value=role.resources.shm)
    asked = job.resources.shm
    if not asked:
        return 0
    if not job.image:
        rule = "is of a container of its own; without an image the node's own /dev/shm is there"
        refuse("resources.shm", rule, value=asked, instead="image: …, or leave it out")
    return byte_size("resources.shm", asked)

"""The folder in which a workspace works, as it is now or was at its end, fetched to this machine.

Rule: what its ignore files leave out stays where it is, and nothing in the archive leads out of the
folder that it is unpacked into.
"""

from __future__ import annotations

import contextlib
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

from headrace.client.client import Client
from headrace.client.errors import ClientError
from headrace.client.session_model import Visit

ARCHIVE_BYTES_MAX = 1_073_741_824  # far above what may travel with a job
PACK = (
    "tar", "--create", "--exclude-vcs", "--exclude-vcs-ignores",
    "--exclude-ignore=.headraceignore", ".",
)  # fmt: skip


@contextlib.contextmanager
def snapshot_of(client: Client, job: str) -> Iterator[Path]:
    """A copy of the job's working directory, until the end of the block. Raises `ClientError`."""
    with tempfile.TemporaryDirectory(prefix="headrace-snapshot-") as here:
        archive, folder = Path(here) / "archive", Path(here) / "folder"
        _fetch(client, job, archive)
        try:
            with tarfile.open(archive) as packed:
                packed.extractall(folder, filter="data")
        except (tarfile.TarError, OSError) as error:
            raise ClientError(f"the folder of {job} cannot be unpacked here: {error}") from None
        yield folder


@contextlib.contextmanager
def kept_of(client: Client, job: str) -> Iterator[Path]:
    """A copy of what is kept of an ended workspace, until the end of the block. Raises `ClientError`."""
    with tempfile.TemporaryDirectory(prefix="headrace-snapshot-") as here:
        folder = Path(here) / "folder"
        client.outputs(job, folder)
        if not folder.is_dir():
            raise ClientError(f"nothing is kept of {job} any more; submit --from needs its folder")
        yield folder


def _fetch(client: Client, job: str, archive: Path) -> None:
    visit = Visit(way="exec", command=PACK)
    said = b""
    with contextlib.closing(client.enter(job, visit)) as session, archive.open("wb") as file:
        while (piece := session.receive()).kind != "exit":
            if piece.kind == "data":
                file.write(piece.data)
            elif piece.kind == "error":
                said = piece.data
            if file.tell() > ARCHIVE_BYTES_MAX:
                raise ClientError(f"the folder of {job} is too large: list data in .headraceignore")
    if piece.value:
        why = (said or piece.data).decode(errors="replace").strip().splitlines()
        raise ClientError(f"the folder of {job} cannot be packed: {why[-1] if why else 'no tar'}")

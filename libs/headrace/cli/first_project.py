"""The project `default`, so that a first job needs no administration.

Rule: applied once, at the first start, through the gateway like any other document; from then on it
is the administrator's to change. It is guaranteed nothing: it uses what others leave.
"""

from __future__ import annotations

from headrace.cli.first_nodes import client_of
from headrace.client import ClientError
from headrace.embedded import EmbeddedError
from headrace.embedded.files import write_file
from headrace.embedded.layout import Layout

NAME = "default"


def ensure_first_project(layout: Layout, url: str) -> None:
    """Apply it unless that was done before. Raises `EmbeddedError`."""
    done = layout.data_dir / "first_project"
    if done.exists():
        return
    client = client_of(layout, url)
    try:
        client.apply({"type": "project", "name": NAME})
    except ClientError as error:
        raise EmbeddedError(f"project {NAME} was not created: {error}") from error
    finally:
        client.close()
    write_file(done, NAME.encode(), durable=True)

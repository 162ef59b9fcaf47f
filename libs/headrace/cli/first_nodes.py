"""The token with which the nodes that `headrace up` plays join, as any other machine does."""

from __future__ import annotations

from headrace.cli.joining import LOOPBACK, join_line, seen_from_outside
from headrace.client import Client, ClientError
from headrace.embedded import EmbeddedError, secrets, settings
from headrace.embedded.layout import Layout

LASTS_S = 600


def token_for(layout: Layout, url: str, nodes: int) -> str:
    """A token that lets so many nodes in at once. Raises `EmbeddedError`."""
    client = client_of(layout, url)
    try:
        return client.create_join_token(uses=nodes, lasts_s=LASTS_S, auto_approve=True).text()
    except ClientError as error:
        raise EmbeddedError(f"no token for its nodes: {error}") from error
    finally:
        client.close()


def join_line_of(layout: Layout, url: str) -> str:
    """What to type on another machine so that it joins, within an hour; empty unless the platform
    is reached from other machines, over TLS. Raises `EmbeddedError`.
    """
    wanted = settings.read(layout)
    host = wanted.listen.rpartition(":")[0].strip("[]")
    if not wanted.tls or host in LOOPBACK:
        return ""
    client = client_of(layout, url)
    try:
        token = client.create_join_token()
    except ClientError as error:
        raise EmbeddedError(f"no join token: {error}") from error
    finally:
        client.close()
    return join_line(seen_from_outside(url), token.text())


def client_of(layout: Layout, url: str) -> Client:
    """The admin's client of this platform."""
    certificate, _ = secrets.certificate(layout, settings.read(layout))
    return Client(url, secrets.token(layout), certificate=certificate)

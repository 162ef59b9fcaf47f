"""A session in a running job, over a WebSocket to the gateway.

Rule: one thread may send while another receives. Whatever ends it early raises `Unreachable`.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

import msgspec

from headrace.client.config import Context
from headrace.client.errors import ClientError, Refused, Unreachable
from headrace.client.model import Answer
from headrace.client.session_model import SessionPiece, Visit
from headrace.client.transport import tls

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

OPEN_S_MAX = 15.0
ANSWER_S_MAX = 30.0
CLOSE_S_MAX = 2.0
MESSAGE_BYTES_MAX = 1_048_576
DATA_BYTES_MAX = 32_768  # of one piece


class Session:
    """One way into one job."""

    @classmethod
    def open(cls, context: Context, path: str, visit: Visit) -> Session:
        """Enter. Raises `ClientError`: `Refused` when there is no way in."""
        from websockets.exceptions import InvalidHandshake, InvalidURI, WebSocketException
        from websockets.sync.client import connect

        headers = {"Authorization": f"Bearer {context.token}"} if context.token else {}
        ends = ExitStack()
        try:
            socket = ends.enter_context(
                connect(
                    _websocket_url(context.url, path),
                    additional_headers=headers,
                    open_timeout=OPEN_S_MAX,
                    close_timeout=CLOSE_S_MAX,
                    max_size=MESSAGE_BYTES_MAX,
                    compression=None,
                    ssl=tls(context.certificate) if context.url.startswith("https:") else None,
                    proxy=None,
                )
            )
            socket.send(msgspec.json.encode(visit).decode())
            answer = msgspec.json.decode(socket.recv(ANSWER_S_MAX), type=Answer)
        except (InvalidHandshake, InvalidURI) as error:
            raise ClientError(f"{context.url}: no session here: {error}") from error
        except (OSError, WebSocketException) as error:
            raise Unreachable(f"{context.url}: {error or type(error).__name__}") from error
        session = cls(socket, ends)
        if not answer.accepted:
            session.close()
            raise Refused(answer)
        return session

    def __init__(self, socket: ClientConnection, ends: ExitStack) -> None:
        self._socket, self._ends = socket, ends

    def send(self, piece: SessionPiece) -> None:
        """Raises `Unreachable`."""
        from websockets.exceptions import ConnectionClosed

        try:
            self._socket.send(msgspec.msgpack.encode(piece))
        except (OSError, ConnectionClosed) as error:
            raise Unreachable("the session has ended") from error

    def receive(self) -> SessionPiece:
        """The next piece. Raises `Unreachable` when there will be none."""
        from websockets.exceptions import ConnectionClosed

        try:
            piece = msgspec.msgpack.decode(_bytes(self._socket.recv()), type=SessionPiece)
        except (OSError, ConnectionClosed, msgspec.MsgspecError) as error:
            raise Unreachable("the connection to the gateway is lost") from error
        if piece.kind == "lost":
            raise Unreachable(piece.data.decode(errors="replace"))
        return piece

    def close(self) -> None:
        """Leave."""
        self._ends.close()


def _bytes(message: str | bytes) -> bytes:
    return message.encode() if isinstance(message, str) else message


def _websocket_url(url: str, path: str) -> str:
    parts = urlsplit(url)
    scheme = "wss" if parts.scheme == "https" else "ws"
    return urlunsplit((scheme, parts.netloc, parts.path.rstrip("/") + path, "", ""))

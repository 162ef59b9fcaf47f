"""What is HTTP/1.1 is read, whole or as it comes; what is not is said in one line."""

import contextlib
import socket
import ssl
import threading

import pytest

from headrace.client import ClientError, Unreachable
from headrace.client.connection import Connection
from headrace.trust.self_signed import self_signed

GOOD = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.fixture
def server(monkeypatch):
    """`server(*pieces)`: a connection to who sends these, one by one, then hangs up; what it was
    asked is in `server.asked`.
    """
    monkeypatch.setattr("headrace.client.connection.DEADLINE_S", 0.0)
    opened = []

    def serve(*pieces):
        listening = socket.create_server(("127.0.0.1", 0))
        serve.asked = []

        def run():
            came, _ = listening.accept()
            with came, contextlib.suppress(OSError):  # who asked may have heard enough
                for piece in pieces:
                    if piece.startswith(b"HTTP"):
                        serve.asked.append(came.recv(65_536))
                    came.sendall(piece)

        thread = threading.Thread(target=run)
        thread.start()
        connection = Connection(f"http://127.0.0.1:{listening.getsockname()[1]}", "t0ken")
        opened.append((listening, thread, connection))
        return connection

    yield serve
    for listening, thread, connection in opened:
        connection.close()
        thread.join(5)
        listening.close()


def test_one_connection_is_used_again(server):
    connection = server(GOOD, GOOD.replace(b"ok", b"so"))
    assert connection.get("/v1/x", {"a": "b"}) == b"ok"
    assert connection.send("POST", "/v1/x", b"{}") == b"so"
    first, second = server.asked
    assert first.startswith(b"GET /v1/x?a=b HTTP/1.1\r\nHost: 127.0.0.1:")
    assert b"Content-Length: 2\r\n" in second


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (CHUNKED + b"3;a=b\r\none\r\n4\r\ntwo\n\r\n0\r\nX: y\r\n\r\n", b"onetwo\n"),
        (b"HTTP/1.1 200 OK\r\n\r\nuntil the end", b"until the end"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + GOOD, b"ok"),
    ],
)
def test_a_body_is_as_long_as_is_said(server, answer, body):
    assert server(answer).get("/") == body


def test_lines_are_read_as_they_come(server):
    connection = server(CHUNKED, b"5\r\none\nt\r\n", b"3\r\nwo\n\r\n0\r\n\r\n")
    assert list(connection.stream("/", {}, {})) == [b"one\n", b"two\n"]


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok", "the answer broke off"),
        (CHUNKED + b"9\r\nok", "the answer broke off"),
        (CHUNKED + b"2\r\nok\r\n", "the answer broke off"),
        (CHUNKED + b"long\r\n", "the answer broke off"),
        (b"HTTP/1.1 200 OK\r\n" + b"x" * 70_000 + b"\r\n\r\n", "more than 65536 bytes"),
        (b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 101 + b"\r\n", "more than 100 headers"),
        (b"HTTPS is better\r\n\r\n", "does not speak HTTP"),
        (b"HTTP/1.1 OK\r\n\r\n", "does not speak HTTP"),
        (b"HTTP/2.0 200 OK\r\n\r\n", "does not speak HTTP"),
    ],
)
def test_what_is_no_answer_is_said_in_one_line(server, answer, line):
    with pytest.raises(Unreachable, match=line) as error:
        server(answer).get("/")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/a b", {}),
        ("/a\r\nX: y", {}),
        ("/", {"X": "y\r\nHeadrace-On-Behalf-Of: ada"}),
        ("/", {"X": "漢"}),
    ],
)
def test_nothing_is_smuggled_into_a_request(server, path, headers):
    connection = server(GOOD)
    with pytest.raises(ClientError, match="a request cannot have"), connection.body(path, headers):
        """Not reached."""
    assert server.asked in ([], [b""])


def test_a_certificate_that_is_not_trusted_is_said_at_once(monkeypatch, tmp_path):
    monkeypatch.setattr("headrace.client.connection.DEADLINE_S", 3_600.0)
    (tmp_path / "pem").write_bytes(b"".join(self_signed(["localhost"])))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "pem")

    def greet():
        came, _ = listening.accept()
        with came, contextlib.suppress(OSError):
            context.wrap_socket(came, server_side=True)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=greet)
        thread.start()
        with pytest.raises(Unreachable, match="not trusted here: self-signed certificate"):
            Connection(f"https://127.0.0.1:{listening.getsockname()[1]}", "t").get("/")
        thread.join(5)


def test_a_token_that_cannot_be_sent_is_not_shown():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        connection = Connection(f"http://127.0.0.1:{listening.getsockname()[1]}", "s3cret\nx")
        with pytest.raises(ClientError) as error:
            connection.get("/")
    assert "s3cret" not in str(error.value)

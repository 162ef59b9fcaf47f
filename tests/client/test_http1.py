"""What is HTTP/1.1 is read, whole or as it comes; what is not is said in one line."""

import socket
import threading

import pytest

from headrace.client.http1 import HEADERS_MAX, HttpConnection, HttpError, Unsendable

GOOD = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@pytest.fixture
def server():
    """`server(*pieces)`: a connection to who sends these, one by one, then hangs up; what it was
    asked is in `server.asked`.
    """
    opened = []

    def serve(*pieces):
        listening = socket.create_server(("127.0.0.1", 0))
        serve.asked = []

        def run():
            came, _ = listening.accept()
            with came:
                for piece in pieces:
                    if piece.startswith(b"HTTP"):
                        serve.asked.append(came.recv(65_536))
                    came.sendall(piece)

        thread = threading.Thread(target=run)
        thread.start()
        connection = HttpConnection("127.0.0.1", listening.getsockname()[1], 5.0, None)
        opened.append((listening, thread, connection))
        return connection

    yield serve
    for listening, thread, connection in opened:
        connection.close()
        thread.join(5)
        listening.close()


def test_one_connection_is_used_again(server):
    connection = server(GOOD, GOOD.replace(b"ok", b"so"))
    for method, body, word in (("GET", None, b"ok"), ("POST", b"{}", b"so")):
        response = connection.ask(method, "/v1/x?a=b", body, {"Authorization": "Bearer t"})
        assert (response.status, response.read(), response.leaves_open) == (200, word, True)
    first, second = server.asked
    assert first.startswith(b"GET /v1/x?a=b HTTP/1.1\r\nHost: 127.0.0.1:")
    assert b"Content-Length" not in first
    assert second.endswith(b"Content-Length: 2\r\nAuthorization: Bearer t\r\n\r\n{}")


@pytest.mark.parametrize(
    ("said", "body"),
    [
        (
            b"Transfer-Encoding: chunked\r\n\r\n3;a=b\r\none\r\n4\r\ntwo\n\r\n0\r\nX: y\r\n\r\n",
            b"onetwo\n",
        ),
        (b"transfer-encoding: Chunked\r\n\r\n0\r\n\r\n", b""),
        (b"Content-Length: 0\r\n\r\n", b""),
        (b"Content-Length: 4\r\nRetry-After: 3\r\n\r\nfour", b"four"),
        (b"\r\nuntil the end", b"until the end"),
        (b"Connection: close\r\nContent-Length: 1\r\n\r\nx", b"x"),
    ],
)
def test_a_body_is_as_long_as_is_said(server, said, body):
    answer = b"HTTP/1.1 429 Too Many Requests\r\n" + said
    response = server(answer).ask("GET", "/", None, {})
    assert (response.status, response.read()) == (429, body)
    assert response.header("Retry-After") == ("3" if b"Retry" in said else "")
    assert response.leaves_open == (b"until" not in said and b"close" not in said)


def test_lines_are_read_as_they_come(server):
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    response = server(head, b"5\r\none\nt\r\n", b"3\r\nwo\n\r\n0\r\n\r\n").ask("GET", "/", None, {})
    assert [response.readline() for _ in range(3)] == [b"one\n", b"two\n", b""]


def test_what_is_said_before_the_answer_is_skipped(server):
    response = server(b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + GOOD).ask(
        "GET", "/", None, {}
    )
    assert (response.status, response.read(), response.header("link")) == (200, b"ok", "")


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nok",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"HTTP",
    ],
)
def test_what_breaks_off_is_no_answer(server, answer):
    with pytest.raises(ConnectionError):
        server(answer).ask("GET", "/", None, {}).read()


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTPS is better\r\n\r\n",
        b"HTTP/1.1 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"x" * 70_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n"
        + b"".join(b"a%d: b\r\n" % n for n in range(HEADERS_MAX + 1))
        + b"\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nlong\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-4\r\n",
    ],
)
def test_what_is_not_http_is_said(server, answer):
    with pytest.raises(HttpError):
        server(answer).ask("GET", "/", None, {}).read()


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/a b", {}),
        ("/a\r\nX: y", {}),
        ("/", {"Authorization": "Bearer t\r\nHeadrace-On-Behalf-Of: ada"}),
        ("/", {"Idempotency-Key": "漢"}),
    ],
)
def test_nothing_is_smuggled_into_a_request(server, path, headers):
    connection = server()
    with pytest.raises(Unsendable):
        connection.ask("GET", path, None, headers)

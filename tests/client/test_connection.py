"""The client against a server that does what is asked of it, byte for byte."""

import contextlib
import json
import logging
import socket
import threading

import pytest

from headrace.client import Client, ClientError, NotFound, Refused, Unreachable
from headrace.client.connection import path_with

ACCEPTED = b'{"accepted": true, "position": 3, "job": "x-1"}'


def answer(status, body, kind="application/json"):
    head = f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def stream(*lines):
    """An answer that has no end of its own: the connection is closed after it."""
    return b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + b"".join(lines)


class Server:
    """Answers one connection after the other with the next of `answers`, once it `may`; None hangs up at
    once.
    """

    def __init__(self, *answers, may=None):
        self.answers, self.requests = list(answers), []
        self._may = may
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self):
        for reply in self.answers:
            with contextlib.suppress(OSError):
                connection, _ = self._socket.accept()
                with connection:
                    self.requests.append(self._request(connection))
                    if self._may is not None:
                        self._may.wait()
                    if reply is not None:
                        connection.sendall(reply)
        self._socket.close()

    def _request(self, connection):
        file = connection.makefile("rb")
        line = file.readline().decode()
        headers = {}
        while (header := file.readline().strip()) != b"":
            name, _, value = header.decode().partition(": ")
            headers[name.lower()] = value
        body = file.read(int(headers.get("content-length", 0)))
        return line.split(" ")[:2], headers, body


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr("headrace.client.connection.RETRY_S", 0.001)
    monkeypatch.setattr("headrace.client.resuming.RETRY_S", 0.001)


def test_a_submission_is_sent_again_under_its_key_until_it_is_answered():
    server = Server(
        None, answer(503, b'{"accepted": false, "message": "starting"}'), answer(201, ACCEPTED)
    )
    assert Client(server.url, "t").submit({"name": "x"}).job == "x-1"
    keys = {headers["idempotency-key"] for _, headers, _ in server.requests}
    assert len(server.requests) == 3
    assert len(keys) == 1


def test_it_is_said_that_no_answer_has_come_yet(monkeypatch):
    monkeypatch.setattr("headrace.client.transport.SILENCE_S_SAID", 0.001)
    may, said = threading.Event(), []

    class Heard(logging.Handler):
        def emit(self, record):
            said.append(record.getMessage())
            may.set()

    heard = Heard()
    logging.getLogger("headrace.client").addHandler(heard)
    server = Server(answer(201, ACCEPTED), may=may)
    assert Client(server.url, "t").submit({"name": "x"}).job == "x-1"
    logging.getLogger("headrace.client").removeHandler(heard)
    assert said == [f"{server.url}: no answer for 3 s; waiting for 22 s more"]
    assert len(server.requests) == 1


@pytest.mark.parametrize("job", [{"name": "x"}, '{"name": "x"}', b'{"name": "x"}'])
def test_a_job_file_that_names_no_project_is_the_clients(job):
    server = Server(answer(201, ACCEPTED))
    Client(server.url, "t", "vision").submit(job)
    assert json.loads(server.requests[0][2]) == {"project": "vision", "name": "x"}


def test_a_job_file_keeps_its_own_project():
    server = Server(answer(201, ACCEPTED))
    Client(server.url, "t", "vision").submit({"name": "x", "project": "speech"})
    assert json.loads(server.requests[0][2])["project"] == "speech"


@pytest.mark.parametrize("job", ["not JSON", b"\xff", "[1]"])
def test_what_is_no_job_file_is_for_the_platform_to_refuse(job):
    server = Server(answer(400, b'{"accepted": false, "message": "no", "refusal": {"field": "x"}}'))
    with pytest.raises(Refused):
        Client(server.url).submit(job)
    assert server.requests[0][2] == (job if isinstance(job, bytes) else job.encode())


def test_a_secret_is_sent_again_under_another_key_because_it_is_sealed_again():
    server = Server(None, answer(200, ACCEPTED))
    Client(server.url, "t", "vision").set_secret("KEY", b"value")
    keys = {headers["idempotency-key"] for _, headers, _ in server.requests}
    assert len(keys) == 2


def test_every_request_carries_the_token():
    server = Server(answer(200, b"[]"))
    Client(server.url, "secret-token").nodes()
    assert server.requests[0][1]["authorization"] == "Bearer secret-token"


def test_an_answer_that_says_no_is_an_exception_with_the_refusal():
    body = {"accepted": False, "message": "refused: nodes", "refusal": {"field": "nodes"}}
    server = Server(answer(422, json.dumps(body).encode()))
    with pytest.raises(Refused, match="refused: nodes") as refused:
        Client(server.url).submit({})
    assert refused.value.answer.refusal == {"field": "nodes"}


def test_what_is_not_there_is_not_found():
    server = Server(answer(404, b'{"accepted": false, "message": "no job x"}'))
    with pytest.raises(NotFound, match="no job x"):
        Client(server.url).job("x")


def test_an_answer_that_is_no_answer_of_ours_is_one_line():
    server = Server(answer(500, b"<html>\nproxy error"))
    with pytest.raises(ClientError, match="HTTP 500") as error:
        Client(server.url).nodes()
    assert "\n" not in str(error.value)


def test_nobody_listening_is_said_so(monkeypatch):
    monkeypatch.setattr("headrace.client.connection.RESTART_S", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    with pytest.raises(Unreachable, match="nobody listens there"):
        Client(url).submit({})
    with pytest.raises(Unreachable, match="nobody listens there"):
        list(Client(url).events(follow=True))


def test_requests_end_at_a_deadline(monkeypatch):
    monkeypatch.setattr("headrace.client.connection.DEADLINE_S", 0.0)
    server = Server(None)
    with pytest.raises(Unreachable):
        Client(server.url).submit({})


def test_what_can_be_connected_to_by_no_repeating_is_said_at_once(monkeypatch):
    monkeypatch.setattr("headrace.client.connection.time.sleep", pytest.fail)
    with socket.create_server(("127.0.0.1", 0)) as plain:

        def say():
            connection, _ = plain.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                connection.recv(9)

        threading.Thread(target=say, daemon=True).start()
        with pytest.raises(Unreachable, match="does not speak TLS; http:// may be meant"):
            Client(f"https://127.0.0.1:{plain.getsockname()[1]}").nodes()
    with pytest.raises(Unreachable, match=r"http://nobody.invalid: "):
        Client("http://nobody.invalid").nodes()


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a/b/c", "a" * 5_000, "a/²"])
def test_what_is_no_name_is_asked_of_nobody(name):
    client = Client("http://127.0.0.1:1")
    for ask in (client.job, client.cancel, client.why, client.node):
        with pytest.raises(NotFound) as error:
            ask(name)
        assert len(str(error.value)) < 300


@pytest.mark.parametrize(
    "url",
    ["", "localhost:7400", "ftp://x", "http://", "http://x:0", "http://x:99999", "http://[::"],
)
def test_what_is_no_address_is_said_so(url):
    with pytest.raises(ClientError, match="no address of a gateway"):
        Client(url)


def event(position):
    body = {"position": position, "at_us": 1, "type": "job.requested.v1", "stream": "job/x"}
    return b"id: %d\nevent: x\ndata: %s\n\n" % (position, json.dumps(body).encode())


def test_followed_events_go_on_from_the_last_position_after_a_break():
    server = Server(stream(event(5), event(6)), None, stream(event(7)))
    events = Client(server.url).events(after=4, follow=True)
    assert [next(events).position for _ in range(3)] == [5, 6, 7]
    assert [headers["last-event-id"] for _, headers, _ in server.requests] == ["4", "6", "6"]


def test_a_break_is_told_when_the_next_try_does_not_mend_it():
    server = Server(stream(event(5)), None, stream(event(6)), None, None, None, stream(event(7)))
    told = []
    events = Client(server.url).events(follow=True, on_break=told.append)
    assert [next(events).position for _ in range(2)] == [5, 6]
    assert told == []
    assert next(events).position == 7
    assert isinstance(told[0], Unreachable)
    assert told[1:] == [None]


def test_a_heartbeat_moves_the_position_too():
    server = Server(stream(event(5), b"id: 90\n\n"), stream(event(91)))
    events = Client(server.url).events(follow=True)
    assert [next(events).position for _ in range(2)] == [5, 91]
    assert server.requests[1][1]["last-event-id"] == "90"


def piece(offset, text):
    return json.dumps({"attempt": 1, "rank": 0, "offset": offset, "text": text}).encode() + b"\n"


def test_output_goes_on_from_its_offsets_after_a_break():
    server = Server(
        stream(piece(3, "abc"), b"\n"), None, stream(piece(6, "def"), b"null\n", piece(9, "no"))
    )
    found = list(Client(server.url).logs("x-1", rank=0, follow=True))
    assert "".join(part.text for part in found) == "abcdef"
    paths = [path for (_, path), _, _ in server.requests]
    assert "offsets" not in paths[0]
    assert "offsets=1.0.0.3" in paths[2]
    assert "rank=0" in paths[2]


def test_a_query_leaves_out_what_is_not_given_and_keeps_zero():
    assert path_with("/x", {"a": None, "b": "", "c": False, "d": 0, "e": True}) == "/x?d=0&e=true"


def test_a_task_is_a_part_of_its_own_in_a_path():
    server = Server(answer(404, b'{"accepted": false}'), answer(404, b'{"accepted": false}'))
    for name in ("lr-x/3", "etc?x"):
        with pytest.raises(NotFound):
            Client(server.url).job(name)
    paths = [path for (_, path), _, _ in server.requests]
    assert paths == ["/v1/jobs/lr-x/3", "/v1/jobs/etc%3Fx"]

"""Webhooks: what is decided about them, and what is sent to them."""

import base64
import contextlib
import json
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import msgspec
import pytest

from headrace.admission.posting import Message, NotTaken, Post, signature
from headrace.documents import read_webhook
from headrace.events import Refusal
from headrace.events.webhooks import (
    Webhook,
    WebhookApplyRequested,
    WebhookConfigured,
    WebhookDeleted,
    WebhookDeleteRequested,
    WebhookReached,
    WebhookRefused,
    WebhookStopped,
)
from headrace.runtime.pipelines.outcomes import Outcome

from .facts import decided, history, led, project, refusal

HOOK = Webhook(url="https://hooks.example.com/x", types=("job.finished",))
ASKED = WebhookApplyRequested(
    name="nightly", project="vision", webhook=HOOK, secret=b"sealed", secret_key="k1"
)
AGAIN = WebhookApplyRequested(
    name="nightly", project="vision", webhook=HOOK, secret=b"other", secret_key="k2"
)


def test_a_webhook_is_created_with_the_secret_that_was_drawn():
    assert decided(history(ASKED)) == WebhookConfigured(
        name="nightly",
        project="vision",
        webhook=HOOK,
        secret=b"sealed",
        secret_key="k1",
        change="created",
    )


def test_one_that_is_applied_again_keeps_its_secret():
    run = history(ASKED)
    decided(run)
    event = decided(run.given(AGAIN))
    assert (event.secret, event.secret_key, event.change) == (b"sealed", "k1", "unchanged")


def test_one_that_stopped_is_resumed_where_it_was():
    run = history(ASKED)
    decided(run)
    told = WebhookReached(name="nightly", project="vision", reached=40)
    stopped = WebhookStopped(name="nightly", project="vision", at=41, reason="HTTP 410")
    assert decided(run.given(told, stopped, AGAIN)).change == "resumed"
    hook = run.state.hooks["vision"]["nightly"]
    assert (hook.reached, hook.stopped) == (40, False)


@pytest.mark.security
def test_one_project_has_so_many_and_leaves_the_others_theirs():
    named = [msgspec.structs.replace(ASKED, name=name) for name in ("a", "b", "c")]
    run = history(led(webhooks_per_project_max=2), *named)
    refused = run.turn()[-1].event
    assert str(refused.refusal) == (
        "refused: webhook = c — project vision may have at most 2 (webhooks_per_project_max, "
        "set for this service at position 3); delete one that nobody needs"
    )
    elsewhere = msgspec.structs.replace(ASKED, project="ads")
    assert decided(run.given(project("ads"), elsewhere)).change == "created"


def test_a_project_that_is_not_there_has_none():
    run = history(msgspec.structs.replace(ASKED, project="visoin"))
    assert isinstance(decided(run), WebhookRefused)


def test_one_that_is_not_there_cannot_be_deleted():
    run = history(ASKED)
    decided(run)
    run.given(WebhookDeleteRequested(name="nightli", project="vision"))
    assert refusal(run).endswith("did you mean nightly?")
    asked = WebhookDeleteRequested(name="nightly", project="vision")
    assert decided(run.given(asked)) == WebhookDeleted(name="nightly", project="vision")
    assert run.state.hooks == {}


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"url": "ftp://x"}, "url = ftp://x — is no address of a web server"),
        ({"url": "https://u:p@x/"}, "url — has a password in it"),
        ({"url": "https://x:99999/"}, "url = https://x:99999/ — is no address"),
        ({"url": "http://127.0.0.1/"}, "url = 127.0.0.1 — is not on the public internet"),
        ({"url": "http://[::1]/"}, "url = ::1 — is not on the public internet"),
        ({"url": "http://169.254.169.254/"}, "url = 169.254.169.254 — is not on the public"),
        ({"url": "http://localhost/"}, "url = localhost — is not on the public internet"),
        ({"url": "http://100.64.0.1/"}, "url = 100.64.0.1 — is not on the public internet"),
        ({"url": "http://[::ffff:a00:1]/"}, "url = ::ffff:a00:1 — is not on the public"),
        ({"url": "http://[64:ff9b::a00:1]/"}, "url = 64:ff9b::a00:1 — is not on the public"),
        ({"url": "http://[2002:a00:1::]/"}, "url = 2002:a00:1:: — is not on the public internet"),
        ({"url": "http://[::127.0.0.1]/"}, "url = ::127.0.0.1 — is not on the public internet"),
        ({"url": "http://[fec0::1]/"}, "url = fec0::1 — is not on the public internet"),
        ({"events": ["job.exploded"]}, "events[0] = job.exploded — begins no event"),
        ({"events": []}, "events — has 1 to 32 types of events"),
        ({"evnts": []}, "evnts — unknown field; did you mean events?"),
        ({"name": "A b"}, "name = A b — has 1 to 41"),
    ],
)
def test_what_cannot_be_is_refused(fields, line):
    document = {"type": "webhook", "name": "n", "project": "ads", "url": "https://x.example/"}
    refusal = read_webhook({**document, **fields})
    assert isinstance(refusal, Refusal)
    assert str(refusal).startswith(f"refused: {line}")


def test_signatures_are_those_of_standard_webhooks():
    # The example of the specification's reference libraries.
    secret = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    body = b'{"test": 2432232314}'
    found = signature(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
    assert found == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


OUTCOME = Outcome("ads", "job.finished.v1", b'{"job":"a"}', {"ce-id": "7", "ce-type": "x"})


@contextlib.contextmanager
def listening(status, headers=()):
    got = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            got.append((self.headers, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(status)
            for name, value in headers:
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/hook?x=1", got
        server.shutdown()


def sent(url, *, private=True):
    Post(Message(url, OUTCOME, b"secret", 1_700_000_000, private)).run()


def test_a_message_says_what_happened_and_is_signed():
    with listening(204) as (url, got):
        sent(url)
    ((headers, body),) = got
    assert json.loads(body) == {"job": "a"}
    assert headers["webhook-id"] == "headrace-7"
    assert headers["webhook-signature"] == signature(b"secret", "headrace-7", 1_700_000_000, body)
    assert headers["ce-type"] == "x"


def test_nothing_is_sent_inside_unless_that_is_allowed():
    with listening(204) as (url, got):
        with pytest.raises(NotTaken, match="not on the public internet"):
            sent(url, private=False)
        with pytest.raises(NotTaken, match="not on the public internet"):
            sent(url.replace("127.0.0.1", "localhost"), private=False)
    assert got == []


def test_a_redirect_is_not_followed():
    away = [("Location", "http://127.0.0.1:1/")]
    with listening(302, away) as (url, got), pytest.raises(NotTaken, match="HTTP 302") as raised:
        sent(url)
    assert len(got) == 1
    assert not raised.value.is_final


def test_an_address_that_is_gone_is_not_tried_again():
    with listening(410) as (url, _), pytest.raises(NotTaken) as raised:
        sent(url)
    assert raised.value.is_final


def test_nobody_at_the_address_is_a_reason():
    with pytest.raises(NotTaken, match="refused"):
        sent("http://127.0.0.1:1/")


@contextlib.contextmanager
def dripping():
    """Takes a message and answers with a header without an end, a byte at a time."""
    with socket.create_server(("127.0.0.1", 0)) as listening, contextlib.ExitStack() as open_:
        begun = threading.Event()

        def drip():
            connection, _ = listening.accept()
            open_.enter_context(connection)
            connection.recv(65_536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
            with contextlib.suppress(OSError):
                while True:
                    begun.set()
                    connection.sendall(b"x")
                    time.sleep(0.001)

        dripper = threading.Thread(target=drip)
        dripper.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/", begun
        dripper.join()


@pytest.mark.security
def test_an_endpoint_that_answers_a_byte_at_a_time_can_be_given_up():
    with dripping() as (url, begun):
        under_way = Post(Message(url, OUTCOME, b"secret", 1_700_000_000, private=True))
        threading.Thread(target=lambda: (begun.wait(), under_way.abort())).start()
        with pytest.raises(NotTaken, match="did not answer in time"):
            under_way.run()

"""A webhook of a whole platform: told in order, at least once, by whoever leads."""

import base64
import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from headrace.admission.posting import signature

PREFIX = "whsec_"


@contextlib.contextmanager
def receiver():
    """Answers `status`; what came, in order."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if server.status == 204:
                server.got.append((dict(self.headers), body))
            self.send_response(server.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.got, server.status = [], 204
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def hook(platform, tmp_path):
    platform.wait_ready()
    with receiver() as server:
        document = {
            "type": "webhook",
            "name": "nightly",
            "project": "default",
            "url": f"http://127.0.0.1:{server.server_port}/",
            "private": True,
        }
        (tmp_path / "hook.yaml").write_text(json.dumps(document))
        said = platform.headrace("apply", "-f", str(tmp_path / "hook.yaml")).stdout
        server.secret = said.split()[2]
        yield server
        platform.headrace("webhook", "delete", "nightly")


def finished(server):
    return [json.loads(body)["job"] for _, body in server.got]


def test_it_is_told_of_every_end_in_order_and_signed(platform, hook):
    jobs = []
    for _ in range(3):
        jobs.append(platform.client().submit({"name": "told", "command": ["true"]}).job)
        platform.ended(jobs[-1])
    platform.wait(lambda: set(jobs) <= set(finished(hook)), "three messages")
    told = dict.fromkeys(finished(hook))  # at least once; and of what other tests left, late
    assert [job for job in told if job in jobs] == jobs
    headers, body = hook.got[0]
    secret = base64.b64decode(hook.secret.removeprefix(PREFIX))
    at_s = int(headers["webhook-timestamp"])
    assert headers["webhook-signature"] == signature(secret, headers["webhook-id"], at_s, body)


def test_what_was_not_taken_is_told_by_the_next_leader(platform, hook):
    hook.status = 500
    job = platform.client().submit({"name": "told", "command": ["true"]}).job
    platform.ended(job)
    platform.kill("admission")
    hook.status = 204
    platform.wait(lambda: job in finished(hook), "the message")
    platform.wait_ready()
    (row,) = platform.json("webhook", "list")
    assert row["name"] == "nightly"

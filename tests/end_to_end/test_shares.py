"""A noisy project and a quiet one on a platform: what the noisy one does costs it its own share."""

import asyncio
import contextlib
import json
import socket
import threading

import nats
import nats.js.errors
import pytest
from tests.end_to_end.pipeline import ANSWER_S, ENVELOPE
from tests.end_to_end.test_webhooks import finished, receiver

from headrace.admission.courier import POSTS_PER_PROJECT_MAX
from headrace.bus.subjects import publisher_inbox

pytestmark = pytest.mark.security

SILENT = 24  # endpoints: more than there once were threads
REQUESTS = 3_000
POSTS, POST_BYTES = 300, 250_000
FLEET = [{"type": "project", "name": name} for name in ("noisy", "quiet")]


@pytest.fixture(scope="module")
def fleet(platform, tmp_path_factory):
    """The platform with both projects, and the folder with their publishers' credentials."""
    folder = tmp_path_factory.mktemp("shares")
    platform.wait_ready()
    apply(platform, folder, *FLEET)
    for name in ("noisy", "quiet"):
        creds = str(folder / f"{name}.creds")
        platform.headrace("publisher", "create", name, "--project", name, "--out", creds)
    return platform, folder


def apply(platform, folder, *documents):
    path = folder / "documents.yaml"
    path.write_text("\n---\n".join(json.dumps(document) for document in documents))
    return platform.headrace("apply", "-f", str(path)).stdout


class Silent:
    """Takes connections and never says a word."""

    def __init__(self, listening):
        self.listening, self.open, self.most, self.ended = listening, 0, 0, 0
        self._lock = threading.Lock()

    def accept(self):
        with contextlib.suppress(OSError):  # the test is over
            while True:
                connection, _ = self.listening.accept()
                threading.Thread(target=self._hold, args=[connection], daemon=True).start()

    def _hold(self, connection):
        with self._lock:
            self.open += 1
            self.most = max(self.most, self.open)
        with connection, contextlib.suppress(OSError):
            while connection.recv(65_536):
                pass
        with self._lock:
            self.open, self.ended = self.open - 1, self.ended + 1


@pytest.fixture
def silent():
    with socket.create_server(("127.0.0.1", 0), backlog=256) as listening:
        held = Silent(listening)
        threading.Thread(target=held.accept, daemon=True).start()
        yield held
        listening.shutdown(socket.SHUT_RDWR)


def hook(project, number, port):
    url = f"http://127.0.0.1:{port}/{number}"
    return {
        "type": "webhook", "name": f"hook-{number}", "project": project, "url": url, "private": True,
    }  # fmt: skip


def test_silent_endpoints_of_one_project_delay_nobody_elses_webhook(fleet, silent):
    platform, folder = fleet
    port = silent.listening.getsockname()[1]
    apply(platform, folder, *(hook("noisy", number, port) for number in range(SILENT)))
    client = platform.client()
    with receiver() as told:
        apply(platform, folder, hook("quiet", 0, told.server_port))
        client.submit({"name": "noise", "project": "noisy", "command": ["true"]})
        platform.wait(lambda: silent.open == POSTS_PER_PROJECT_MAX, "the noisy project's posts")
        ended_before = silent.ended
        job = client.submit({"name": "quiet", "project": "quiet", "command": ["true"]}).job
        platform.wait(lambda: job in finished(told), "the quiet project's message")
        # it came while the same endpoints were being waited for: not when one of them was given up
        assert (silent.most, silent.ended) == (POSTS_PER_PROJECT_MAX, ended_before)
    for number in range(SILENT):
        platform.headrace("webhook", "delete", f"hook-{number}", "--project", "noisy")
    platform.headrace("webhook", "delete", "hook-0", "--project", "quiet")


@contextlib.asynccontextmanager
async def publisher(fleet, name):
    """A connection with this publisher's credential."""
    platform, folder = fleet
    connection = await nats.connect(
        platform.nats_url,
        user_credentials=str(folder / f"{name}.creds"),
        inbox_prefix=publisher_inbox(name, name),
    )
    try:
        yield connection
    finally:
        await connection.close()


def job_of(project, text=""):
    return json.dumps(
        {"name": "j", "project": project, "command": ["true", text], "secrets": ["NONE"]}
    ).encode()


async def test_a_quiet_publisher_is_answered_among_the_first_of_a_noisy_ones_thousands(fleet):
    answers = []

    async def answered(message):
        answers.append(json.loads(message.data))

    async with publisher(fleet, "noisy") as noisy, publisher(fleet, "quiet") as quiet:
        await noisy.subscribe(f"{publisher_inbox('noisy', 'noisy')}.all.*", cb=answered)
        body = job_of("noisy")
        for number in range(REQUESTS):
            headers = {**ENVELOPE, "ce-id": f"noise-{number}"}
            subject, reply = (
                "headrace.request.noisy.noisy.job.submit",
                f"{publisher_inbox('noisy', 'noisy')}.all.{number}",
            )
            await noisy.publish(subject, body, reply, headers)
        await noisy.flush()
        headers = {**ENVELOPE, "ce-id": "quiet"}
        subject = "headrace.request.quiet.quiet.job.submit"
        said = await quiet.request(subject, job_of("quiet"), ANSWER_S, headers=headers)
        async with asyncio.timeout(ANSWER_S):
            while len(answers) < REQUESTS:  # noqa: ASYNC110 -- the library tells nobody
                await asyncio.sleep(0.01)
    at = json.loads(said.data)["position"]
    assert at > 0
    before = sum(answer["position"] < at for answer in answers)
    print(f"{before} of {REQUESTS} noisy requests were answered before the quiet one")
    assert before < REQUESTS


async def test_posts_of_one_project_fill_its_own_share_and_another_one_posts_on(fleet):
    async with publisher(fleet, "noisy") as noisy, publisher(fleet, "quiet") as quiet:
        events = await quiet.subscribe("headrace.event.quiet.>")
        receipts = await noisy.subscribe("headrace.posted.noisy.noisy.job.submit")
        answers = await noisy.subscribe("headrace.event.noisy.>")
        keys = {f"post-{number}" for number in range(POSTS)}
        await post_all(noisy, keys)  # faster than they are worked through: some are not kept
        headers = {**ENVELOPE, "ce-id": "mine"}
        await quiet.publish(
            "headrace.post.quiet.quiet.job.submit", job_of("quiet"), headers=headers
        )
        await next_of(events, "ce-correlationid", {"mine"})
        kept = await told_by_now(receipts)
        answered = set()
        while answered < keys:  # as a pipeline does: again, what got no receipt
            await post_all(noisy, keys - kept)
            kept |= await told_by_now(receipts)
            while kept - answered:
                answered.add(await next_of(answers, "ce-correlationid", kept - answered))


async def post_all(noisy, keys):
    body = job_of("noisy", "x" * POST_BYTES)
    for key in sorted(keys):
        subject, headers = "headrace.post.noisy.noisy.job.submit", {**ENVELOPE, "ce-id": key}
        await noisy.publish(subject, body, headers=headers)
    await noisy.flush(timeout=ANSWER_S)


async def told_by_now(receipts):
    """The keys of what the bus told by now that it keeps; a receipt that is later is no harm."""
    kept = set()
    while receipts.pending_msgs:
        receipt = await receipts.next_msg(ANSWER_S)
        assert receipt.data == b""
        kept.add(receipt.headers["ce-id"])
    return kept


async def next_of(events, header, values):
    """The value of the next event that has one of these in this header."""
    while True:
        event = await events.next_msg(ANSWER_S)
        if (event.headers or {}).get(header) in values:
            return event.headers[header]

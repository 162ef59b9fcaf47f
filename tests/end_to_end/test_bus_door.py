"""Pipelines on the bus: how they ask, how they are answered, and what garbage comes to."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time

import nats
import nats.errors
import pytest
from tests.contract.buses import Heard
from tests.end_to_end.pipeline import (
    ANSWER_S,
    ENVELOPE,
    JOB,
    ROOT,
    ask,
    ask_service,
    asked_since,
    line_in,
    next_of,
    next_with,
    options_of,
    post,
    run_line,
    run_twin,
)
from tests.logins import creds_for_all

from headrace.bus.credentials import new_user_seed, public_key
from headrace.bus.interface import NotConnected
from headrace.bus.nats import NatsBus
from headrace.bus.subjects import publisher_inbox
from headrace.client.client import Client
from headrace.client.errors import Refused
from headrace.embedded.nats import Nats

SUBJECT = "headrace.request.ads.nightly-etl.job.submit"
PUT_OUT_S = 60  # admission tells the bus two seconds after it was decided
FLEET = ROOT / "examples" / "fleet.yaml"
# Stands for the NATS command line: what it was told, as JSON.
NATS = '#!/bin/sh\nexec python3 -c "import json, sys; print(json.dumps(sys.argv[1:]))" "$@"\n'


@pytest.fixture(scope="module")
def fleet(platform):
    platform.wait_ready()
    platform.headrace("apply", "-f", str(FLEET))
    return platform


@pytest.fixture(scope="module")
def folder(fleet, tmp_path_factory):
    """Where a pipeline works: its credential, its job file, and a `nats` on its path."""
    folder = tmp_path_factory.mktemp("pipeline")
    creds = str(folder / "nightly-etl.creds")
    done = fleet.headrace("publisher", "create", "nightly-etl", "--project", "ads", "--out", creds)
    (folder / "said").write_text(done.stdout)
    (folder / "job.json").write_text(json.dumps(JOB) + "\n")
    (folder / "nats").write_text(NATS)
    (folder / "nats").chmod(0o755)
    return folder


@pytest.fixture
async def pipeline(fleet, folder):
    """A connection with the publisher's credential."""
    connection = await nats.connect(
        fleet.nats_url,
        user_credentials=str(folder / "nightly-etl.creds"),
        inbox_prefix="_INBOX_pub_ads_nightly-etl",
        max_reconnect_attempts=2,
    )
    yield connection
    await connection.close()


@pytest.fixture
async def service(fleet):
    """A connection that may say and hear everything, answered as the publisher of `ads` is."""
    creds = creds_for_all(fleet.layout)
    inbox = publisher_inbox("ads", "nightly-etl")
    bus = await NatsBus.connect(fleet.nats_url, creds_path=creds, inbox_prefix=inbox)
    yield bus
    await bus.close()


@pytest.mark.parametrize("where", ["README.md", "what `publisher create` prints"])
async def test_the_line_and_its_twin_in_python_say_the_same(fleet, folder, service, where):
    text = (ROOT / where if where == "README.md" else folder / "said").read_text()
    told = options_of(run_line(line_in(text), folder))
    seen = Heard()
    watching = await service.subscribe("headrace.request.ads.nightly-etl.job.submit", seen)
    key = told["headers"]["ce-id"]
    answer = await asyncio.to_thread(run_twin, fleet, folder, key)
    await seen.count(1)  # or more: what is not answered soon is sent again
    await watching.stop()
    assert answer["accepted"]
    assert answer["job"].startswith("etl-")
    assert answer["position"] > 0
    message = seen.messages[0]
    source = {} if where == "README.md" else {"ce-source": "/etl"}  # the printed one has another
    assert told["subject"] == message.subject
    assert told["headers"] | source == message.headers
    assert told["body"].encode() == message.data
    assert run_twin(fleet, folder, key) == answer, "the same key is the same job"


async def test_another_job_under_a_used_key_is_refused(pipeline):
    first = await ask(pipeline, JOB, "used-once")
    again = await ask(pipeline, {**JOB, "command": ["false"]}, "used-once")
    assert first["accepted"]
    assert not again["accepted"]
    assert "used at position" in again["message"]


async def test_what_was_posted_is_answered_by_an_event_with_its_key(pipeline):
    events = await pipeline.subscribe("headrace.event.ads.job.*.v1")
    receipts = await pipeline.subscribe("headrace.posted.ads.nightly-etl.>")
    await pipeline.flush()
    await post(pipeline, json.dumps(JOB).encode(), "posted-1")
    receipt = await receipts.next_msg(ANSWER_S)
    assert (receipt.headers["ce-id"], receipt.data) == ("posted-1", b"")
    admitted = await next_with(events, "posted-1", "headrace.event.ads.job.admitted.v1")
    said = json.loads(admitted.data)
    assert said["job"].startswith("etl-")
    assert said["position"] == int(admitted.headers["ce-id"])
    finished = await next_of(events, "headrace.event.ads.job.finished.v1", said["job"])
    assert json.loads(finished.data)["outcome"] == "succeeded"


async def test_what_was_posted_twice_is_one_job(pipeline):
    events = await pipeline.subscribe("headrace.event.ads.>")
    await pipeline.flush()
    await post(pipeline, json.dumps(JOB).encode(), "posted-2")
    admitted = await next_with(events, "posted-2", "headrace.event.ads.job.admitted.v1")
    await post(pipeline, json.dumps(JOB).encode(), "posted-2")
    answered = await next_with(events, "posted-2", "headrace.event.ads.job.post_answered.v1")
    assert json.loads(answered.data)["job"] == json.loads(admitted.data)["job"]


async def test_what_was_posted_and_is_garbage_is_refused_by_an_event(pipeline):
    events = await pipeline.subscribe("headrace.event.ads.job.>")
    await pipeline.flush()
    await post(pipeline, b"\xff\x00 garbage", "posted-3")
    refused = await next_with(events, "posted-3", "headrace.event.ads.job.post_refused.v1")
    assert json.loads(refused.data)["message"].startswith("refused: ")


GARBAGE = [
    b"",
    b"\xff\xfe\x00",
    b"null",
    b"[[[[",
    b"[" * 100_000,
    b'{"name": "a.b.>", "command": ["true"]}',
    b'{"name": "../../etc/passwd", "command": ["true"]}',
    b'{"name": "a\\u001b[2J", "command": ["true"]}',
    b'{"nam": "etl", "command": ["true"]}',
    b'{"name": "etl", "command": ["true"], "resources": {"gpus": -1}}',
    b'{"name": "etl", "command": ["true"], "nodes": 1e400}',
    b'{"name": "etl", "command": ["true"], "project": "vision"}',
    b'{"name": "etl", "command": ["a\\u0000b"]}',
    b'{"job": "*", "change": 7, "sealed": "?", "public_key": "U", "type": "project"}',
    b"x" * 900_000,
]
VERBS = (
    "ads.job.submit",
    "ads.job.cancel",
    "ads.job.explode",
    "fleet.queue.apply",
    "fleet.node.change",
    "ads.secret.set",
    "ads.publisher.create",
    "nowhere.project.erase",
    "Not_A-Project.job.submit",
)


async def test_garbage_is_answered_in_one_line_kept_apart_and_never_in_the_log(fleet, service):
    before = (await ask_service(service, JOB, "before-garbage"))["position"]
    letters = await service.stream_state("DEADLETTER")
    said = []
    creds = creds_for_all(fleet.layout)
    for asked in VERBS:
        project, _, verb = asked.partition(".")
        inbox = f"_INBOX_pub_{project}_etl"
        bus = await NatsBus.connect(fleet.nats_url, creds_path=creds, inbox_prefix=inbox)
        for number, body in enumerate(GARBAGE):
            if verb == "project.erase" and not body:
                continue  # that one is a good request
            headers = {**ENVELOPE, "ce-id": f"garbage-{asked}-{number}"}
            headers["ce-type"] = f"headrace.{verb}.v1"
            subject = f"headrace.request.{project}.etl.{verb}"
            reply = await bus.request(subject, body, headers, timeout_s=ANSWER_S)
            said.append((subject, body[:40], json.loads(reply.data)))
        await bus.close()
    for subject, body, answer in said:
        line = answer.get("message", "")
        assert not answer["accepted"], (subject, body)
        assert line.startswith("refused: "), (subject, body, line)
        assert line.isprintable(), (subject, body, line)
        assert len(line) < 1_000, (subject, body, line)
    kept = await service.stream_state("DEADLETTER")
    assert kept.messages - letters.messages == len(said)
    assert asked_since(fleet, before) == []
    assert (await ask_service(service, JOB, "after-garbage"))["accepted"]


@pytest.mark.parametrize("key", ["", "k" * 201, "k\x1b[2J", "k\u2028k"])
async def test_a_key_that_is_none_is_refused(service, key):
    answer = await ask_service(service, JOB, key)
    assert not answer["accepted"]
    assert "idempotency key" in answer["message"]


async def test_a_message_too_large_for_the_bus_is_refused_where_it_is_sent(pipeline):
    with pytest.raises(nats.errors.MaxPayloadError):
        await ask(pipeline, {**JOB, "env": {"DATA": "x" * 10_000_000}}, "too-large")
    assert (await ask(pipeline, JOB, "after-too-large"))["accepted"]


async def test_nobody_is_asked_on_a_subject_that_is_none(pipeline):
    for subject in ("headrace.request.ads.nightly-etl.job", f"{SUBJECT}.now"):
        with pytest.raises((nats.errors.NoRespondersError, nats.errors.TimeoutError)):
            await pipeline.request(subject, b"{}", timeout=1)


async def test_a_deleted_publisher_is_put_out_and_let_in_no_more(fleet, folder):
    creds, out = str(folder / "leaked.creds"), asyncio.Event()
    fleet.headrace("publisher", "create", "leaked", "--project", "ads", "--out", creds)
    sign_in = {"creds_path": creds, "inbox_prefix": "_INBOX_pub_ads_leaked"}
    bus = await NatsBus.connect(fleet.nats_url, **sign_in, on_lost=out.set)
    fleet.headrace("publisher", "delete", "leaked", "--project", "ads")
    await asyncio.wait_for(out.wait(), PUT_OUT_S)
    await bus.close()
    with pytest.raises(NotConnected, match=r"(?i)authorization"):
        await NatsBus.connect(fleet.nats_url, **sign_in)


async def test_a_publisher_sees_and_says_nothing_of_others(fleet, folder):
    refused = []

    async def failed(error):
        if "permissions violation" in str(error).lower():
            refused.append(str(error))

    connection = await nats.connect(
        fleet.nats_url, user_credentials=str(folder / "nightly-etl.creds"), error_cb=failed
    )
    heard = []

    async def hear(message):
        heard.append(message.subject)

    for subject in (
        "headrace.event.vision.>",
        "headrace.log.>",
        "headrace.agent.>",
        "_INBOX.>",  # answers to whoever asks in the usual way
        ">",
    ):
        await connection.subscribe(subject, cb=hear)
    for subject in (
        "headrace.request.vision.nightly-etl.job.submit",
        "headrace.gateway.ads.job.submit",
    ):
        await connection.publish(subject, b"{}")
    await connection.flush()
    fleet.headrace("run", "--project", "vision", "--gpus", "1", "--", "true")
    await connection.flush()
    await connection.close()
    assert heard == []
    assert len(refused) == 7, refused


def test_a_body_of_ten_megabytes_is_refused_over_http_in_one_line(fleet, tmp_path):
    large = tmp_path / "large.json"
    large.write_text(json.dumps({**JOB, "env": {"DATA": "x" * 10_000_000}}))
    done = fleet.headrace("submit", str(large), check=False)
    assert done.returncode in (1, 120)
    assert done.stderr.count("\n") == 1
    assert "bytes" in done.stderr


def test_no_service_said_more_than_a_line_about_any_of_it(fleet):
    fleet.wait_ready()
    assert not [name for name, text in fleet.logs().items() if "Traceback" in text]


async def test_a_renewed_login_is_let_in_and_a_nodes_key_is_no_publishers(fleet, folder):
    creds = str(folder / "renewed.creds")
    fleet.headrace("publisher", "create", "renewed", "--project", "ads", "--out", creds)
    fleet.headrace("publisher", "renew", "renewed", "--project", "ads", "--creds", creds)
    await (await NatsBus.connect(fleet.nats_url, creds_path=creds)).close()
    n1 = public_key(new_user_seed())  # known to everybody; its seed is not
    client = Client(fleet.url, fleet.token, project="ads")
    stolen = await asyncio.to_thread(_refused, client, n1)
    assert "refused: signature = " in stolen


def _refused(client, key):
    with pytest.raises(Refused) as refused:
        client.create_publisher("thief", key, "AAAA", at_s=int(time.time()))
    return str(refused.value)


async def test_a_durable_publisher_hears_all_that_happened_while_it_was_away_once(fleet, folder):
    creds = str(folder / "away.creds")
    made = fleet.headrace(
        "publisher", "create", "away", "--project", "ads", "--durable", "--out", creds
    )
    assert made.stdout.startswith("durable publisher away created")
    book = folder / "book.sqlite"
    jobs = [submitted(fleet) for _ in range(3)]
    first = await asyncio.to_thread(heard_by_example, fleet, creds, book, "--last", jobs[-1])
    more = [submitted(fleet) for _ in range(3)]  # nobody listens now
    os.kill(Nats(fleet.layout.nats).running().pid, signal.SIGKILL)
    fleet.wait_ready()
    second = await asyncio.to_thread(heard_by_example, fleet, creds, book, "--last", more[-1])
    ended = [said["job"] for said in (*first, *second) if said["type"] == "job.finished.v1"]
    assert ended == [*jobs, *more]
    positions = [said["position"] for said in (*first, *second)]
    assert len(positions) == len(set(positions))


async def test_who_holds_no_durable_place_is_told_what_makes_one(service):
    reply = await service.request(
        "headrace.outcomes.ads.nightly-etl.next", b"{}", timeout_s=ANSWER_S
    )
    message = json.loads(reply.data)["message"]
    assert "holds no durable place here; headrace publisher create NAME --durable" in message


@pytest.fixture(scope="module")
def asking_creds(fleet, folder):
    """The credential of a durable publisher."""
    creds = str(folder / "asking.creds")
    fleet.headrace("publisher", "create", "asking", "--project", "ads", "--durable", "--out", creds)
    return creds


@pytest.fixture
async def asking(fleet, asking_creds):
    """A connection of the durable publisher, once it has its place."""
    sign_in = {"creds_path": asking_creds, "inbox_prefix": publisher_inbox("ads", "asking")}
    bus = await NatsBus.connect(fleet.nats_url, **sign_in)
    async with asyncio.timeout(PUT_OUT_S):
        while "message" in await asked(bus, b'{"most": 0}'):  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.1)
    yield bus
    await bus.close()


async def asked(bus, question):
    subject = "headrace.outcomes.ads.asking.next"
    return json.loads((await bus.request(subject, question, timeout_s=ANSWER_S)).data)


@pytest.mark.parametrize(
    ("question", "said"),
    [
        (b"[]", "refused: request"),
        (b'{"most": 1000}', "refused: most = 1000 — is 0 to 100"),
        (b'{"wait_s": 1e9}', "refused: wait_s"),
        (b'{"ack": ["1.1.1.1.1.>"]}', "refused: ack = 1.1.1.1.1.> — is not what came"),
        (b'{"ack": ["x.$JS.API.STREAM.DELETE.EVENTS"]}', "refused: ack"),
        (b'{"acks": []}', "refused: request"),
    ],
)
async def test_a_wrong_question_for_outcomes_is_refused(asking, question, said):
    message = (await asked(asking, question))["message"]
    assert message.startswith(said), message


async def test_a_deleted_publishers_durable_place_is_gone(fleet, folder, service):
    creds = str(folder / "gone.creds")
    fleet.headrace("publisher", "create", "gone", "--project", "ads", "--durable", "--out", creds)

    async def places():
        names = await service.durables("EVENTS").names()
        return [name for name in names if name.startswith("outcomes_ads_gone_")]

    async with asyncio.timeout(PUT_OUT_S):
        while not await places():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.1)
        fleet.headrace("publisher", "delete", "gone", "--project", "ads")
        while await places():  # noqa: ASYNC110 - likewise
            await asyncio.sleep(0.1)


def submitted(fleet):
    job = fleet.client("ads").submit(JOB).job
    fleet.ended(job)
    return job


def heard_by_example(fleet, creds, book, *options):
    """What examples/pipelines/two_days_away.py prints until it has heard of the last job's end."""
    example = str(ROOT / "examples" / "pipelines" / "two_days_away.py")
    done = subprocess.run(
        [sys.executable, example, fleet.nats_url, creds, "ads", str(book), *options],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]

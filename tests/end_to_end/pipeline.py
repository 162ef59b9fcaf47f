"""A pipeline's side of the bus: what it sends from a shell and from Python, what it hears."""

import json
import re
import subprocess
import sys
from pathlib import Path

from headrace.events import CATALOGUE

ROOT = Path(__file__).parents[2]
ANSWER_S = 60
JOB = {"name": "etl", "command": ["true"], "resources": {"gpus": 1}}
ENVELOPE = {
    "ce-type": "headrace.job.submit.v1",
    "ce-source": "/etl",
    "ce-specversion": "1.0",
}


def line_in(text: str) -> str:
    """The `nats req` line, with its continuations; `…` of a prompt and of a body left out."""
    joined = text.replace("\\\n", " ")
    found = re.search(r"nats (?:--server \S+ )?--creds \S+ --inbox-prefix \S+\s+req .*", joined)
    assert found, "no line with `nats --server … --creds … --inbox-prefix … req …`"
    return found[0]


def run_line(line: str, folder: Path) -> list[str]:
    """What the NATS command line would be given, as a shell makes it."""
    done = subprocess.run(
        ["/bin/sh", "-euc", line],
        cwd=folder,
        env={"PATH": f"{folder}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{line}: {done.stderr}"
    return json.loads(done.stdout)


def options_of(arguments: list[str]) -> dict:
    """What those arguments of `nats req` send where."""
    rest, headers = [], {}
    words = iter(arguments)
    for word in words:
        if word == "-H":
            name, _, value = next(words).partition(":")
            headers[name] = value
        elif word == "--server":
            assert next(words).startswith("nats://127.0.0.1:")
        elif word == "--creds":
            assert next(words).endswith("nightly-etl.creds")
        elif word == "--inbox-prefix":
            assert next(words) == "_INBOX_pub_ads_nightly-etl"
        else:
            rest.append(word)
    request, subject, body = rest
    assert request == "req"
    return {"subject": subject, "headers": headers, "body": body}


def run_twin(fleet, folder: Path, key: str) -> dict:
    """What `examples/publisher.py` prints."""
    twin = [sys.executable, str(ROOT / "examples" / "publisher.py"), fleet.nats_url]
    done = subprocess.run(
        [*twin, "nightly-etl.creds", "ads", key, "job.json"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


async def ask(connection, job: dict, key: str) -> dict:
    body, headers = json.dumps(job).encode(), {**ENVELOPE, "ce-id": key}
    subject = "headrace.request.ads.nightly-etl.job.submit"
    return json.loads((await connection.request(subject, body, ANSWER_S, headers=headers)).data)


async def ask_service(bus, job: dict, key: str) -> dict:
    body, headers = json.dumps(job).encode(), {**ENVELOPE, "ce-id": key}
    subject = "headrace.request.ads.nightly-etl.job.submit"
    return json.loads((await bus.request(subject, body, headers, timeout_s=ANSWER_S)).data)


async def post(connection, body: bytes, key: str) -> None:
    headers = {**ENVELOPE, "ce-id": key}
    await connection.publish("headrace.post.ads.nightly-etl.job.submit", body, headers=headers)


async def next_with(events, key: str, subject: str):
    """The next event on the subject that answers the request with this key."""
    while True:
        event = await events.next_msg(ANSWER_S)
        if event.subject == subject and event.headers.get("ce-correlationid") == key:
            return event


async def next_of(events, subject: str, job: str):
    """The next event on the subject about this job."""
    while True:
        event = await events.next_msg(ANSWER_S)
        if event.subject == subject and json.loads(event.data)["job"] == job:
            return event


def asked_since(fleet, position: int) -> list[str]:
    """What the log has of requests after this position."""
    lines = fleet.headrace("events", "--after", str(position), "-o", "json").stdout.splitlines()
    types = [json.loads(line)["type"] for line in lines]
    return [kind for kind in types if "requested" in kind or CATALOGUE[kind].owner == "admission"]

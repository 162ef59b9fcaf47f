"""Every login of the bus × every request that a service receives, at a platform that runs.

Rule: as in `test_matrix`: the table's text says what a publisher may, and nobody else may anything.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

import nats
import pytest
from tests.security.expectations import CELLS
from tests.security.operations import FLEET, PLACES
from tests.security.stage import ANSWER_S, Stage

from headrace.admission.requests import Requests
from headrace.placement.requests import RECEIVERS as PLACEMENT_RECEIVERS
from headrace.quota.requests import RECEIVERS as QUOTA_RECEIVERS

pytestmark = pytest.mark.security

ADMISSIONS = Requests(master_key=bytes(32), account_seed="").receivers()

VERBS = sorted({*ADMISSIONS, *PLACEMENT_RECEIVERS, *QUOTA_RECEIVERS})

DOORS = ("request", "post", "gateway")
LAST = "headrace.log.matrix.last.{}"  # which no login may send: refused after all before it


class Sender:
    """A login of the bus that sends whatever there is, and keeps what the bus did not take."""

    def __init__(self, url: str, creds: str, inbox: str) -> None:
        self._url, self._creds, self._inbox = url, creds, inbox
        self._refused: dict[str, None] = {}
        self._is_news = asyncio.Event()
        self._rounds = 0

    async def __aenter__(self) -> Self:
        self.connection = await nats.connect(
            self._url,
            user_credentials=self._creds,
            inbox_prefix=self._inbox,
            error_cb=self._note,
            max_reconnect_attempts=2,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.connection.close()

    async def ask(self, subject: str) -> dict[str, Any]:
        """What a service answers."""
        answer = await self.connection.request(subject, b"{}", ANSWER_S, headers=envelope(subject))
        return json.loads(answer.data)

    async def taken(self, subjects: Iterable[str]) -> list[str]:
        """Those that the bus takes."""
        self._rounds += 1
        sent, last = tuple(subjects), LAST.format(self._rounds)
        for subject in (*sent, last):
            await self.connection.publish(subject, b"{}", headers=envelope(subject))
        async with asyncio.timeout(ANSWER_S):
            while last not in self._refused:
                await self._is_news.wait()
                self._is_news.clear()
        return [subject for subject in sent if subject.lower() not in self._refused]

    async def heard(self, subjects: Iterable[str]) -> list[str]:
        """Those that the bus lets it listen to."""
        asked = tuple(subjects)
        for subject in asked:
            await self.connection.subscribe(subject)
        await self.taken(())
        return [subject for subject in asked if subject.lower() not in self._refused]

    async def _note(self, error: Exception) -> None:
        self._refused[str(error).partition('"')[2].partition('"')[0].lower()] = None
        self._is_news.set()


def envelope(subject: str) -> dict[str, str]:
    return {
        "ce-id": f"matrix-{subject}",
        "ce-type": "headrace.{}.{}.v1".format(*subject.replace("-", "_").split(".")[-2:]),
        "ce-source": "/x",
        "ce-specversion": "1.0",
    }


def subject_of(door: str, place: str, sender: str, verb: str) -> str:
    return f"headrace.{door}.{place}.{sender}.{verb.replace('_', '-')}"


def subjects(door: str, place: str, sender: str) -> list[str]:
    """Every request to this door as this sender; also without a sender in it."""
    named = [subject_of(door, place, sender, verb) for verb in VERBS]
    return [*named, *(subject.replace(f".{sender}.", ".", 1) for subject in named)]


@pytest.fixture(scope="module")
def publisher(stage, tmp_path_factory) -> str:
    creds = str(tmp_path_factory.mktemp("publisher") / "etl.creds")
    stage.platform.headrace("publisher", "create", "etl", "--project", "vision", "--out", creds)
    for project in PLACES:  # of the same name elsewhere, and another one beside it
        out = creds + project
        stage.platform.headrace("publisher", "create", "other", "--project", project, "--out", out)
    out = creds + "same"
    stage.platform.headrace("publisher", "create", "etl", "--project", "zeta", "--out", out)
    return creds


async def test_a_publisher_asks_for_what_the_table_says_in_its_project_and_reaches_no_other(
    stage, publisher
):
    url, inbox = stage.platform.nats_url, inbox_of(publisher)
    async with Sender(url, publisher, inbox) as sender:
        for verb in VERBS:
            subject = subject_of("request", "vision", "etl", verb)
            if not verb.startswith("job."):
                others = (subject, subject_of("post", "vision", "etl", verb))
                assert await sender.taken(others) == []
                continue
            said = await sender.ask(subject)
            allowed = CELLS.get((verb, "publisher"), "-") != "-"
            assert (said.get("refusal", {}).get("field") != "access") is allowed, (verb, said)
            assert not said["accepted"], (verb, said)
        for door in DOORS:
            for place in ("zeta", "research", FLEET, *(("vision",) if door == "gateway" else ())):
                assert await sender.taken(subjects(door, place, "etl")) == []
            assert await sender.taken(subjects(door, "vision", "other")) == []
        assert await sender.taken(OTHERS_OF_THE_BUS) == []


async def test_a_publisher_hears_of_its_project_and_is_answered_alone(stage, publisher):
    own = inbox_of(publisher)
    async with Sender(stage.platform.nats_url, publisher, own) as sender:
        may_hear = (f"{own}.x", "headrace.event.vision.>", "headrace.posted.vision.etl.>")
        assert await sender.heard(may_hear) == list(may_hear)
        assert await sender.heard(NOT_FOR_PUBLISHERS) == []


NOT_FOR_PUBLISHERS = (
    "_INBOX_pub_vision_other.>", "_INBOX_pub_zeta_etl.>", "_INBOX_n1.>", "_INBOX.>", "_SERVICES.>",
    "_SERVICES.placement.>", "headrace.event.zeta.>", "headrace.event.*.job.*.*",
    "headrace.posted.vision.other.>", "headrace.posted.zeta.etl.>", "headrace.posted.vision.>",
    "headrace.request.vision.>", "headrace.post.vision.>", "headrace.gateway.>", "headrace.log.>",
    "headrace.agent.>", "headrace.relay.>", "headrace.deadletter.>", "$JS.>", "$SYS.>", ">",
)  # fmt: skip


async def test_a_node_asks_for_nothing(stage):
    creds, inbox = node_login(stage)
    async with Sender(stage.platform.nats_url, creds, inbox) as sender:
        for door in DOORS:
            for place in (*PLACES, FLEET):
                assert await sender.taken(subjects(door, place, "etl")) == []
        assert await sender.taken(OTHERS_OF_THE_BUS) == []


OTHERS_OF_THE_BUS = (
    "headrace.log.job.finished.v1", "headrace.event.vision.job.finished.v1",
    "headrace.agent.n2.up.report", "headrace.agent.n1.down.desired", "headrace.query.placement.why",
    "headrace.relay.log.job.finished.v1", "headrace.relay.posting",
    "headrace.posted.vision.etl.job.submit", "headrace.posted.vision.other.job.submit",
    "_SERVICES.placement.x", "_SERVICES.admission.x", "_INBOX_pub_vision_other.x",
    "_INBOX_pub_zeta_etl.x", "_INBOX_n2.x", "_INBOX.x",
    *(f"$JS.API.{call}" for project in PLACES for call in (
        f"STREAM.INFO.REQUESTS-{project}", f"STREAM.PURGE.REQUESTS-{project}",
        f"STREAM.MSG.GET.REQUESTS-{project}", f"CONSUMER.MSG.NEXT.REQUESTS-{project}.inbox",
        f"CONSUMER.CREATE.REQUESTS-{project}.x", f"CONSUMER.DELETE.REQUESTS-{project}.inbox",
    )),
    *(f"$JS.ACK.REQUESTS-{project}.inbox.1.1.1.1.1" for project in PLACES),
)  # fmt: skip


async def test_every_request_of_the_bus_is_one_that_the_table_knows_or_denies(stage):
    del stage
    assert set(VERBS) == DENIED_TO_PUBLISHERS | {
        verb for verb in VERBS if CELLS.get((verb, "publisher"), "-") != "-"
    }


DENIED_TO_PUBLISHERS = {
    "access.approve", "access.create_token", "access.credential", "access.denied", "access.join",
    "access.read", "access.revoke_token", "access.signed_in", "job.enter",
    "node.change", "pool.apply", "pool.delete", "project.erase", "publisher.create",
    "publisher.delete", "publisher.renew", "queue.apply", "queue.delete", "role.grant", "role.revoke",
    "scheduling.apply", "scheduling.delete", "secret.set", "template.apply", "template.delete",
    "token.create", "token.revoke", "user.remove", "user.set", "volume.apply", "volume.delete",
    "webhook.apply", "webhook.delete",
}  # fmt: skip


def inbox_of(creds: str) -> str:
    """Where the login may hear answers, as its JWT says."""
    body = Path(creds).read_text(encoding="ascii").split("-----")[2].split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    heard = claims["nats"]["sub"]["allow"]
    return next(s for s in heard if s.startswith("_INBOX")).partition(".")[0]


def node_login(stage: Stage) -> tuple[str, str]:
    """The login that n1 got when it joined."""
    with contextlib.suppress(StopIteration):
        found = next(stage.platform.layout.node("n1").rglob("*.creds"))
        return str(found), inbox_of(str(found))
    raise AssertionError("n1 has no login of the bus")

"""Every kind of credential against every subject of the platform, as the server enforces it.

What may be said and heard is worked out here from the subjects alone, and compared with the
permission sets that the product makes: a subject or a permission that is added is tried with the
others.
"""

from __future__ import annotations

import re

import msgspec
import nats
import pytest
from tests.bus.test_credentials import ACCOUNT_SEED, server, service  # noqa: F401
from tests.contract.buses import Heard

from headrace.bus import credentials as c
from headrace.bus import subjects
from headrace.bus.service_logins import service_permissions
from headrace.bus.subjects import matches
from headrace.events import EVENTS, tag_of
from headrace.runtime.pipelines.asyncapi import VERBS
from headrace.runtime.posts import bytes_max, spec_of, stream_of

PUBLISHERS = (("ads", "etl"), ("ads", "other"), ("vision", "etl"))
DURABLE = (("ads", "etl"), ("vision", "etl"))
NODES = ("n1", "n2")
ASKED = (*VERBS, "queue.apply", "node.change", "secret.set", "publisher.create", "project.erase")
SERVICES = ("admission", "quota", "placement", "metrics", "gateway")
# Without their bound of subscriptions: everything is tried on one connection.
UNBOUNDED = {"subscriptions_max": -1}
CREDENTIALS = {
    **{
        f"publisher:{p}/{n}": msgspec.structs.replace(
            c.publisher_permissions(p, n, durable=(p, n) in DURABLE), **UNBOUNDED
        )
        for p, n in PUBLISHERS
    },
    **{f"node:{name}": c.node_permissions(name) for name in NODES},
    **{name: service_permissions(name) for name in SERVICES},
}
INBOXES = {
    **{f"publisher:{p}/{n}": f"_INBOX_pub_{p}_{n}" for p, n in PUBLISHERS},
    **{f"node:{name}": f"_INBOX_{name}" for name in NODES},
    **{name: f"_SERVICES.{name}" for name in SERVICES},
}
QUEUES = ("", "gateway")

OF_THE_SERVER = [
    "$SYS.REQ.SERVER.PING",
    "$SYS.REQ.ACCOUNT.A.CLAIMS.UPDATE",
    "$SYS.REQ.USER.INFO",
    "$SYS.ACCOUNT.A.CONNECT",
    "$JS.API.INFO",
    "$JS.API.STREAM.CREATE.X",
    "$JS.API.STREAM.LIST",
    "$JS.API.STREAM.DELETE.LOG",
    "$JS.API.CONSUMER.CREATE.EVENTS",
    "$JS.API.CONSUMER.CREATE.EVENTS.outcomes_ads_etl_1.headrace.event.ads.>",
    "$JS.API.CONSUMER.DURABLE.CREATE.EVENTS.outcomes_ads_etl_1",
    "$JS.API.CONSUMER.DELETE.EVENTS.outcomes_ads_etl_1",
    "$JS.API.CONSUMER.MSG.NEXT.EVENTS.outcomes_ads_etl_1",
    "$JS.API.CONSUMER.NAMES.EVENTS",
    "$JS.API.CONSUMER.INFO.EVENTS.outcomes_ads_etl_1",
    "$JS.ACK.EVENTS.outcomes_ads_etl_1.1.1.1.1.1",
    *(
        subject.format(project)
        for project in ("ads", "vision")
        for subject in (
            "$JS.API.STREAM.CREATE.REQUESTS-{}",
            "$JS.API.STREAM.UPDATE.REQUESTS-{}",
            "$JS.API.STREAM.INFO.REQUESTS-{}",
            "$JS.API.STREAM.PURGE.REQUESTS-{}",
            "$JS.API.STREAM.DELETE.REQUESTS-{}",
            "$JS.API.STREAM.MSG.GET.REQUESTS-{}",
            "$JS.API.STREAM.MSG.DELETE.REQUESTS-{}",
            "$JS.API.STREAM.SNAPSHOT.REQUESTS-{}",
            "$JS.API.DIRECT.GET.REQUESTS-{}",
            "$JS.API.CONSUMER.CREATE.REQUESTS-{}.x",
            "$JS.API.CONSUMER.DURABLE.CREATE.REQUESTS-{}.other",
            "$JS.API.CONSUMER.MSG.NEXT.REQUESTS-{}.other",
            "$JS.ACK.REQUESTS-{}.other.1.1.1.1.1",
            "$JS.API.CONSUMER.LIST.REQUESTS-{}",
            "$JS.API.CONSUMER.CREATE.REQUESTS-{}.inbox",
            "$JS.API.CONSUMER.CREATE.REQUESTS-{}.inbox.headrace.post.>",
            "$JS.API.CONSUMER.DURABLE.CREATE.REQUESTS-{}.inbox",
            "$JS.API.CONSUMER.INFO.REQUESTS-{}.inbox",
            "$JS.API.CONSUMER.DELETE.REQUESTS-{}.inbox",
            "$JS.API.CONSUMER.MSG.NEXT.REQUESTS-{}.inbox",
            "$JS.ACK.REQUESTS-{}.inbox.1.1.1.1.1",
        )
    ),
    "$JS.EVENT.ADVISORY.API",
    "$KV.bucket.key",
    "$O.bucket.C.x",
    "_R_.abc.def",
    "_GR_.abc.def",
]


def _subjects() -> list[str]:
    """Concrete subjects: of every event, request and message, of the server, and all inboxes."""
    found = [subjects.log(tag_of(event)) for event in EVENTS]
    found += [f"headrace.relay.log.{tag_of(event)}" for event in EVENTS[:3]]
    for project in ("ads", "vision", "fleet"):
        found += [subjects.event(project, tag_of(event)) for event in EVENTS if event.public]
        found += [
            subjects.event(project, f"job.post_{said}.v1") for said in ("answered", "refused")
        ]
        found += [subjects.gateway(project, verb) for verb in ASKED]
        for publisher in ("etl", "other"):
            found += [subjects.request(project, publisher, verb) for verb in ASKED]
            found += [subjects.post(project, publisher, verb) for verb in ASKED]
            found += [subjects.posted(project, publisher, verb) for verb in ASKED]
            found += [subjects.outcomes_next(project, publisher)]
        found += [f"headrace.request.{project}.job.submit", f"headrace.post.{project}.job.submit"]
    for node in NODES:
        whats = ("hello", "pull", "report", "peers", "signal")
        found += [subjects.agent_up(node, what) for what in whats]
        found += [subjects.progress_up(node), subjects.files_asked(node, "put")]
        found += [subjects.agent_down(node, what) for what in ("desired", "logs", "session")]
        found += [subjects.session_up(node, "s1"), subjects.session_down(node, "s1")]
    found += [
        subjects.WHY,
        subjects.USES,
        subjects.PRESENCE,
        subjects.POSTING,
        subjects.DURABLE,
        "headrace.deadletter.headrace.request.ads.job.submit",
    ]
    found += [f"{inbox}.name.reply" for inbox in INBOXES.values()] + ["_INBOX.name.reply"]
    return [*found, *OF_THE_SERVER]


def _may_say(who: str, subject: str) -> bool:
    kind, _, name = who.partition(":")
    tokens = subject.split(".")
    if kind == "publisher":
        own = ["headrace", tokens[1], *name.split("/"), "job"]
        if tokens[1] == "outcomes":
            of = tuple(name.split("/"))
            return of in DURABLE and subject == subjects.outcomes_next(*of)
        return tokens[1] in ("request", "post") and tokens[:-1] == own
    if kind == "node":
        return subject.startswith(f"headrace.agent.{name}.up.")
    if subject.startswith("headrace.log."):
        nouns = {tag_of(event).split(".")[0] for event in EVENTS if event.owner == who}
        return bool(nouns) and tokens[2] in nouns | {"service"}
    if subject == subjects.PRESENCE:
        return True
    if subject in (subjects.POSTING, subjects.DURABLE):
        return who == "admission"
    if subject.startswith(("headrace.relay.", "$JS.API.STREAM.")):
        return who == "metrics"
    if subject.startswith("headrace.event."):
        return who == "metrics" or (
            who != "gateway" and tokens[3:4] == ["job"] and tokens[4].startswith("post_")
        )
    if subject.startswith("headrace.deadletter."):
        return who != "gateway"
    if re.match(r"\$JS\.(API\.CONSUMER\..*|ACK)\.EVENTS\.", subject):
        return who == "metrics" and ".INFO." not in subject
    if subject == "$JS.API.CONSUMER.NAMES.EVENTS":
        return who == "metrics"
    if re.match(r"\$JS\.(API\.CONSUMER\..*|ACK)\.REQUESTS-[^.]+\.inbox", subject):
        return who == "admission"
    if subject.startswith("headrace.agent.") and tokens[3] == "down":
        return who == {"desired": "placement"}.get(tokens[4], "gateway") or who == "placement"
    return who == "gateway" and (
        subject in (subjects.WHY, subjects.USES) or subject.startswith("headrace.gateway.")
    )


def _may_hear(who: str, subject: str) -> bool:
    kind, _, name = who.partition(":")
    tokens = subject.split(".")
    if subject.startswith(f"{INBOXES[who]}."):
        return True
    if kind == "publisher":
        project, publisher = name.split("/")
        of_the_project = f"headrace.event.{project}."
        return subject.startswith((of_the_project, f"headrace.posted.{project}.{publisher}."))
    if kind == "node":
        return subject.startswith(f"headrace.agent.{name}.down.")
    if subject.startswith("headrace.log."):
        return True
    if subject.startswith("headrace.agent.") and tokens[3] == "up":
        heard_by = {
            "progress": {"metrics", "gateway"},
            "files": {"gateway"},
            "session": {"gateway"},
            "signal": {"metrics", "placement"},
        }
        return who in heard_by.get(tokens[4], {"placement"})
    if tokens[1] in ("request", "gateway") and tokens[0] == "headrace":
        facts = {
            tag_of(event).split(".")[0]
            for event in EVENTS
            if event.owner == who and event.kind == "fact"
        }
        depth = 6 if tokens[1] == "request" else 5
        return len(tokens) == depth and tokens[-2] in facts
    return (who, subject) in {
        ("placement", subjects.WHY),
        ("gateway", subjects.PRESENCE),
        ("metrics", subjects.USES),
        ("metrics", subjects.POSTING),
        ("metrics", subjects.DURABLE),
    } or (who == "metrics" and matches(subjects.OUTCOMES_NEXT, subject))


class Tried:
    """A connection that tries subjects, and what the server refused of it."""

    def __init__(self, client, refused):
        self.client, self._refused = client, refused

    async def refused(self, word):
        """The subjects, in small letters as the library tells, that were refused since this was asked
        last.
        """
        for _ in range(2):  # the first one overtakes what is pending
            await self.client.flush()
        found = [re.search(rf'{word} to "([^"]+)"', text, re.IGNORECASE) for text in self._refused]
        self._refused.clear()
        return {match[1].lower() for match in found if match}


@pytest.fixture
async def tried(server, tmp_path):  # noqa: F811
    made = []

    async def one(who):
        refused = []

        async def failed(error):
            refused.append(str(error))

        path = tmp_path / "one.creds"
        path.write_text(c.new_creds(ACCOUNT_SEED, "one", CREDENTIALS[who]))
        client = await nats.connect(
            server.url, user_credentials=str(path), error_cb=failed, inbox_prefix=INBOXES[who]
        )
        made.append(client)
        return Tried(client, refused)

    yield one
    for client in made:
        await client.close()


@pytest.mark.parametrize("who", CREDENTIALS)
async def test_a_credential_says_what_is_its_own_and_nothing_else(tried, who):
    one, all_subjects = await tried(who), _subjects()
    assert len(all_subjects) > 300
    for subject in all_subjects:
        await one.client.publish(subject, b"x")
    refused = await one.refused("publish")
    assert refused == {s.lower() for s in all_subjects if not _may_say(who, s)}


@pytest.mark.parametrize("who", CREDENTIALS)
@pytest.mark.parametrize("queue", QUEUES)
async def test_a_credential_hears_what_is_its_own_and_nothing_else_in_any_queue_group(
    tried, who, queue
):
    one, all_subjects = await tried(who), _subjects()
    for subject in all_subjects:
        await one.client.subscribe(subject, queue=queue)
    refused = await one.refused("subscription")
    assert refused == {s.lower() for s in all_subjects if not _may_hear(who, s)}


@pytest.mark.parametrize("who", CREDENTIALS)
async def test_no_wildcard_hears_more(tried, who):
    one, all_subjects = await tried(who), _subjects()
    wide = {">", "*.>", "$JS.>", "$SYS.>", "_INBOX.>", "_SERVICES.>", "headrace.>"}
    for subject in all_subjects:
        tokens = subject.split(".")
        wide |= {".".join([*tokens[:i], "*", *tokens[i + 1 :]]) for i in range(len(tokens))}
        wide |= {".".join([*tokens[:i], ">"]) for i in range(1, len(tokens))}
    wide = {pattern for pattern in wide if not pattern.startswith("*.")} | {">", "*.>"}
    for pattern in sorted(wide):
        await one.client.subscribe(pattern)
    refused = await one.refused("subscription")
    allowed = {pattern for pattern in wide if pattern.lower() not in refused}
    more = {
        (pattern, subject)
        for pattern in allowed
        for subject in all_subjects
        if subjects.matches(pattern, subject) and not _may_hear(who, subject)
    }
    assert not more


async def test_the_server_reflects_nothing_onto_a_subject_that_a_publisher_names(tried, service):  # noqa: F811
    """What the server says about a message it says with its own rights: it must be said to nobody but
    the sender, and nowhere that the sender chose.
    """
    for project in ("ads", "vision"):
        await service.ensure_stream(spec_of(project, bytes_max()))
    heard = Heard()
    await service.subscribe("headrace.>", heard)
    await service.subscribe("_SERVICES.>", heard)
    one = await tried("publisher:ads/etl")
    targets = [subject for subject in _subjects() if not _may_say("publisher:ads/etl", subject)]
    own = subjects.post("ads", "etl", "job.submit"), subjects.request("ads", "etl", "job.submit")
    for target in targets:
        for subject in own:
            await one.client.publish(subject, b"{}", reply=target)
        await one.client.publish(own[0], b"{}", headers={"Nats-Trace-Dest": target})
    await one.client.flush()
    receipt = subjects.posted("ads", "etl", "job.submit")  # said when the server would acknowledge
    await one.client.publish(own[0], b"the last", headers={"ce-id": "the last"})
    await heard.until(
        lambda _: any(
            message.subject == receipt and message.headers.get("ce-id") == "the last"
            for message in heard.messages
        )
    )
    told = [message.subject for message in heard.messages]
    assert told.count(receipt) == told.count(own[0]) > 300
    assert {message.subject for message in heard.messages} == {*own, receipt}
    for project in ("ads", "vision"):
        await service.delete_stream(stream_of(project))


async def test_a_name_that_a_publisher_gives_a_message_keeps_no_other_projects_out(tried, service):  # noqa: F811
    """The server takes two messages of one `Nats-Msg-Id` for one, within a stream."""
    for project in ("ads", "vision"):
        await service.ensure_stream(spec_of(project, bytes_max()))
    heard = Heard()
    await service.subscribe("headrace.posted.>", heard)
    one, other = await tried("publisher:ads/etl"), await tried("publisher:vision/etl")
    taken = {"Nats-Msg-Id": "taken", "Nats-Expected-Last-Sequence": "0", "Nats-Rollup": "all"}
    await one.client.publish(subjects.post("ads", "etl", "job.submit"), b"{}", headers=taken)
    await one.client.publish(subjects.post("ads", "etl", "job.submit"), b"{}")
    await one.client.flush()
    named = {"Nats-Msg-Id": "taken"}
    await other.client.publish(subjects.post("vision", "etl", "job.submit"), b"{}", headers=named)
    await heard.count(2)
    assert {message.subject for message in heard.messages} == {
        subjects.posted(project, "etl", "job.submit") for project in ("ads", "vision")
    }
    for project in ("ads", "vision"):
        marks = await service.request(f"$JS.API.STREAM.INFO.{stream_of(project)}", b"")
        config = msgspec.json.decode(marks.data)["config"]
        assert (config["no_ack"], config["duplicate_window"]) == (True, 100_000_000)
        assert not {"allow_rollup_hdrs", "allow_direct"} & {k for k, v in config.items() if v}
        await service.delete_stream(stream_of(project))

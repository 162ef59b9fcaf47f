"""The subjects of the bus, in one place.

Rule: whatever becomes a token of a subject passes `token` first, so that no `.`, `*` or `>` from
outside ever gets into one. A subject on which a publisher or a node may send has the sender's name
in it, and no other credential may send there: the name on record is the one that the bus checked.
"""

from __future__ import annotations

import re
from functools import lru_cache

_TOKEN = re.compile(r"^[a-z0-9][a-z0-9-]{0,62}$")

LOG = "headrace.log.>"  # the log's events, services only
FLEET = "fleet"  # stands for the project in requests that concern the whole fleet
REQUESTS_ALL = "headrace.request.>"
GATEWAY_ALL = "headrace.gateway.>"
POSTING = "headrace.relay.posting"  # from admission to the relay: the projects that may post
DURABLE = "headrace.relay.durable"  # likewise: the publishers with a durable place among outcomes
OUTCOMES_NEXT = "headrace.outcomes.*.*.next"
AGENTS_UP = "headrace.agent.*.up.*"
SAID_TO_PLACEMENT = ("hello", "pull", "report", "peers", "signal")  # by agents
PROGRESS = "headrace.agent.*.up.progress.now"
FILES_ASKED = "headrace.agent.*.up.files.*"  # of the gateway; placement need not hear it
SERVICES_INBOX = "_SERVICES"  # answers to services: no publisher and no node may listen there
USES = "headrace.uses"  # of workspaces, as gateways saw them
PRESENCE = "headrace.presence"  # of services' instances, to gateways
WHY = "headrace.query.placement.why"  # a job's id in, an `Explanation` (or null) out


def token(value: str) -> str:
    """`value`, if it can be a subject's token. Raises `ValueError` with the rule."""
    if not _TOKEN.fullmatch(value):
        raise ValueError(f"{value!r} must be 1 to 63 of a-z 0-9 and '-', not starting with '-'")
    return value


def is_token(value: str) -> bool:
    """Whether `value` can be a subject's token."""
    return _TOKEN.fullmatch(value) is not None


def inbox_of_sender(subject: str) -> str:
    """The prefix of the inboxes of the one credential that may send on this subject; for what only
    services may send, that of all services.
    """
    tokens = subject.split(".", 4)
    if len(tokens) == 5 and tokens[0] == "headrace":
        _, door, name, second, _ = tokens
        if door in ("request", "post", "outcomes"):
            return f"_INBOX_pub_{name}_{second}."
        if door == "agent" and second == "up":
            return f"_INBOX_{name}."
    return f"{SERVICES_INBOX}."


def publisher_inbox(project: str, name: str) -> str:
    """The prefix of the inboxes in which a publisher is answered. No token has a `_` in it."""
    return f"_INBOX_pub_{token(project)}_{token(name)}"


def node_inbox(node: str) -> str:
    """The prefix of the inboxes in which a node's agent is answered."""
    return f"_INBOX_{token(node)}"


def service_inbox(service: str) -> str:
    """The prefix of the inboxes in which a service is answered."""
    return f"{SERVICES_INBOX}.{token(service)}"


def log(type_tag: str) -> str:
    """Where a committed event of this type is published to services."""
    return f"headrace.log.{type_tag}"


def event(project: str, type_tag: str) -> str:
    """Where a project's view of an event of this type is published."""
    return f"headrace.event.{token(project)}.{type_tag}"


def request(project: str, publisher: str, verb: str) -> str:
    """A publisher's door with an answer. `verb` is `<noun>.<verb>`, such as `job.submit`."""
    return f"headrace.request.{token(project)}.{token(publisher)}.{_verb(verb)}"


def gateway(project: str, verb: str) -> str:
    """The gateway's own door: only here is the `Headrace-Actor` header believed."""
    return f"headrace.gateway.{token(project)}.{_verb(verb)}"


def post(project: str, publisher: str, verb: str) -> str:
    """A publisher's door that keeps the message until it is answered by an event."""
    return f"headrace.post.{token(project)}.{token(publisher)}.{_verb(verb)}"


def posted(project: str, publisher: str, verb: str) -> str:
    """Where the bus itself tells the publisher, by the message's headers, that it keeps a post."""
    return f"headrace.posted.{token(project)}.{token(publisher)}.{_verb(verb)}"


def outcomes_next(project: str, publisher: str) -> str:
    """Where a durable publisher asks for the outcomes that it has not acknowledged."""
    return f"headrace.outcomes.{token(project)}.{token(publisher)}.next"


def receipts_of(project: str) -> tuple[str, str]:
    """The prefixes of the subjects of a project's posts, and of their receipts."""
    return f"headrace.post.{token(project)}", f"headrace.posted.{project}"


def posts_of(project: str) -> str:
    """What a project may post; no deeper: nobody would answer what lies there."""
    return f"headrace.post.{token(project)}.*.*.*"


def deadletter(project: str) -> str:
    """Where a project's requests are kept that nobody could understand."""
    return f"headrace.deadletter.{project if is_token(project) else 'nobody'}"


def agent_up(node: str, what: str) -> str:
    """From an agent: hello, report, pull, signal."""
    return f"headrace.agent.{token(node)}.up.{token(what)}"


def agent_down(node: str, what: str) -> str:
    """To an agent: desired, logs."""
    return f"headrace.agent.{token(node)}.down.{token(what)}"


def session_down(node: str, session: str) -> str:
    """To the agent's end of a session: what somebody says into a running job."""
    return f"{agent_down(node, 'session')}.{token(session)}"


def session_up(node: str, session: str) -> str:
    """From the agent's end of a session. Deeper than `AGENTS_UP`: placement need not hear it."""
    return f"{agent_up(node, 'session')}.{token(session)}"


def agents_up(what: str) -> str:
    """The same from every agent. Spelled out, for the server takes a permission that ends in `*` for
    one that ends in `>`.
    """
    return f"headrace.agent.*.up.{token(what)}"


def progress_up(node: str) -> str:
    """What a node's workers report; as deep as sessions, for the same reason."""
    return f"{agent_up(node, 'progress')}.now"


def files_asked(node: str, what: str) -> str:
    """From an agent to the gateway: files of jobs placed on the node. See `bus.files`."""
    return f"{agent_up(node, 'files')}.{token(what)}"


@lru_cache(maxsize=65_536)
def matches(pattern: str, subject: str) -> bool:
    """Whether a subscription to `pattern` hears `subject` (NATS wildcards `*` and `>`)."""
    if pattern == subject:
        return True
    wanted, tokens = pattern.split("."), subject.split(".")
    for index, want in enumerate(wanted):
        if want == ">":
            return len(tokens) > index
        if index >= len(tokens) or want not in ("*", tokens[index]):
            return False
    return len(wanted) == len(tokens)


def _verb(verb: str) -> str:
    noun, _, rest = verb.partition(".")
    return f"{token(noun)}.{token(rest.replace('_', '-'))}"

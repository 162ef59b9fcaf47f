"""Joining at admission's doors, over the real runtime: what is refused there, and the credential."""

import base64
import time

import msgspec
import pytest

from headrace.bus import credentials
from headrace.client.model import joining_text
from headrace.events.members import CredentialIssued, JoinRequested, TokenRequested

SEED = credentials.new_user_seed()
KEY = credentials.public_key(SEED)
BOX = base64.b64encode(b"b" * 32).decode()
DIGEST = "0" * 64

TOKEN = {"token": "t1", "digest": DIGEST, "auto_approve": True}
JOIN = {
    "node": "n3", "token": "t1", "digest": DIGEST, "public_key": KEY, "box_key": BOX,
    "at_s": 0, "signature": "",
}  # fmt: skip


def signed(seed=SEED, node="n3", off_s=0, **changes):
    at_s = int(time.time()) + off_s
    proof = {"at_s": at_s, "signature": credentials.sign(seed, joining_text(node, at_s))}
    return JOIN | proof | changes


async def ask(platform, verb, **body):
    return await platform.ask(verb, body, project="fleet")


async def test_a_member_gets_a_credential_for_its_own_subjects_that_expires(platform):
    assert (await ask(platform, "access.create_token", **TOKEN))["accepted"]
    assert (await ask(platform, "access.join", **signed()))["change"] == "approved"
    answer = await ask(platform, "access.credential", node="n3", public_key=KEY)
    (issued,) = platform.events(CredentialIssued)
    jwt = answer["jwt"]
    body = jwt.split(".")[1]
    claims = msgspec.json.decode(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    assert (claims["sub"], claims["nats"]["pub"]["allow"]) == (KEY, ["headrace.agent.n3.up.>"])
    assert claims["nats"]["sub"]["allow"] == ["headrace.agent.n3.down.>", "_INBOX_n3.>"]
    expires_s = issued.issued_at_us // 1_000_000 + issued.lasts_s
    assert credentials.expiry_s(jwt) == claims["exp"] == expires_s
    with pytest.raises(ValueError, match="no JWT"):
        credentials.expiry_s("?")


@pytest.mark.parametrize(
    ("verb", "body", "line"),
    [
        ("access.join", JOIN | {"node": "N.3"}, "refused: node = N.3 — has 1 to 63 of a-z"),
        ("access.join", JOIN | {"digest": "x"}, "refused: digest — is not a SHA-256 in hex"),
        ("access.join", JOIN | {"public_key": "UX"}, "refused: public_key = UX — is not the pub"),
        ("access.join", JOIN | {"box_key": "?"}, "refused: box_key = ? — is not 32 bytes in base"),
        ("access.join", JOIN, "refused: clock — is "),
        ("access.join", {"seed": credentials.new_user_seed()}, "refused: signature = "),
        ("access.join", {"as_node": "n4"}, "refused: signature = "),
        ("access.join", {"off_s": -3600}, "refused: clock — is 3"),
        ("access.join", {"node": "n3"}, "refused: request — Object missing required field"),
        ("access.join", JOIN | {"secret": "s"}, "refused: request — Object contains unknown"),
        ("access.create_token", TOKEN | {"uses": 0}, "refused: uses = 0 — is 1 to 1000"),
        ("access.create_token", TOKEN | {"lasts_s": 1}, "refused: lasts_s = 1 — is 60 s to 30 day"),
        ("access.revoke_token", {"token": "t9"}, "refused: token = t9 — is not known"),
        ("access.approve", {"node": "n9"}, "refused: node = n9 — does not wait for approval"),
    ],
)
async def test_what_is_wrong_ends_in_one_line(platform, verb, body, line):
    if set(body) <= {"seed", "as_node", "off_s"}:  # signed now: the clock is judged
        wrong = dict(body)
        body = signed(node=wrong.pop("as_node", "n3"), **wrong)
    answer = await ask(platform, verb, **body)
    assert not answer["accepted"]
    assert answer["message"].startswith(line)
    assert platform.events(JoinRequested) == []


async def test_tokens_and_nodes_are_the_whole_fleets_business(platform):
    answer = await platform.ask("access.create_token", TOKEN)
    line = "refused: project = vision — tokens and nodes belong to the whole fleet; fleet"
    assert answer["message"] == line
    assert platform.events(TokenRequested) == []

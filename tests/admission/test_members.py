"""Join tokens, machines that join, who approves them, and what lets them sign in."""

from headrace.events import members
from headrace.events.access import PublisherRequested
from headrace.events.nodes import NodeChanged
from headrace.events.queues import Queue, QueueConfigured

from .facts import decided, history, refusal

SECOND_US = 1_000_000
DAY_US = 86_400 * SECOND_US


def token(name="t1", uses=1, lasts_s=3600, **fields):
    return members.TokenRequested(token=name, digest="d", uses=uses, lasts_s=lasts_s, **fields)


def join(node="n3", key="UA", token="t1", digest="d"):
    return members.JoinRequested(
        node=node, token=token, digest=digest, public_key=key, box_key="b", host="gpubox"
    )


def credential(node="n3", key="UA"):
    return members.CredentialRequested(node=node, public_key=key)


def approval(node="n3", *, approved=True):
    return members.ApprovalRequested(node=node, approved=approved)


def with_token(**fields):
    run = history(token(**fields))
    assert isinstance(decided(run), members.TokenCreated)
    return run


def answer(run, event):
    return decided(run.given(event))


def test_a_machine_waits_until_it_is_approved():
    run = with_token()
    assert isinstance(answer(run, join()), members.JoinWaiting)
    said = "refused: node = n3 — waits for approval; headrace node approve n3"
    assert refusal(run.given(credential())) == said
    admitted = answer(run, approval())
    assert (admitted.node, admitted.public_key, admitted.host) == ("n3", "UA", "gpubox")
    issued = answer(run.at(5), credential())
    assert (issued.issued_at_us, issued.lasts_s) == (5, 7 * 86_400)


def test_a_token_may_let_machines_in_at_once():
    run = with_token(auto_approve=True)
    assert isinstance(answer(run, join()), members.MemberAdmitted)


def test_a_machine_that_asks_again_is_answered_alike():
    run = with_token()
    first = answer(run, join())
    assert answer(run.at(10**12), join()) == first
    answer(run, approval())
    assert isinstance(answer(run, join()), members.MemberAdmitted)


def test_a_token_that_was_used_is_refused_to_another_machine():
    run = with_token()
    answer(run, join())
    assert refusal(run.given(join("n4", "UB"))) == (
        "refused: token = t1 — was used already, last by node n3; make one with headrace node "
        "token; if n3 is not yours the token was stolen: headrace node delete n3"
    )


def test_two_machines_with_one_token_in_one_turn_are_judged_one_after_the_other():
    run = with_token().given(join(), join("n4", "UB"))
    kinds = [type(draft.event) for draft in run.turn()]
    assert kinds == [members.JoinWaiting, members.JoinRefused]


def test_a_token_for_several_machines_counts_them():
    run = with_token(uses=2, auto_approve=True).given(
        join(), join("n4", "UB"), join(), join("n5", "UC")
    )
    kinds = [type(draft.event) for draft in run.turn()]
    assert kinds == [members.MemberAdmitted] * 3 + [members.JoinRefused]


def test_a_token_expires():
    run = with_token(lasts_s=60).at(61 * SECOND_US)
    said = "refused: token = t1 — expired 1 s ago; make one with headrace node token"
    assert refusal(run.given(join())) == said


def test_an_unknown_a_guessed_and_a_revoked_token_look_alike():
    run = with_token()
    unknown = refusal(run.given(join(token="t2")))
    guessed = refusal(run.given(join(digest="e")))
    assert isinstance(answer(run, members.TokenRevokeRequested(token="t1")), members.TokenRevoked)
    revoked = refusal(run.given(join()))
    assert unknown.replace("t2", "t1") == guessed == revoked


def test_a_name_belongs_to_one_machine():
    run = with_token(uses=9)
    answer(run, join())
    said = (
        "refused: node = n3 — is the name of another machine (gpubox); "
        "join with --name another, or first headrace node delete n3"
    )
    assert refusal(run.given(join(key="UB"))) == said
    assert "n1" in refusal(run.given(join("n1", "UB"))), "n1 was there without a token"


def test_a_deleted_machine_does_not_come_back_by_its_old_token():
    run = with_token(auto_approve=True, uses=9)
    answer(run, join())
    run.given(NodeChanged(node="n3", change="delete"))
    assert "is no member" in refusal(run.given(credential()))
    said = "refused: token = t1 — let this machine in before, as node n3; make one with "
    assert refusal(run.given(join())).startswith(said)


def test_the_key_of_a_deleted_node_is_revoked_until_its_logins_have_expired():
    run = with_token(uses=3, auto_approve=True)
    for node, key in (("n3", "UA"), ("n4", "UB")):
        answer(run, join(node, key))
    run.at(DAY_US).given(NodeChanged(node="n3", change="delete"))
    assert list(run.state.revoked) == ["UA"]
    answer(run, join("n3", "UC"))
    assert list(run.state.revoked) == ["UA"], "another machine has the name"
    run.at(9 * DAY_US).given(NodeChanged(node="n4", change="delete"))
    assert list(run.state.revoked) == ["UB"]


def test_a_deleted_machine_that_is_let_in_again_is_not_revoked_any_more():
    run = with_token(auto_approve=True)
    answer(run, join())
    run.given(NodeChanged(node="n3", change="delete"))
    answer(run, token("t2", auto_approve=True))
    assert isinstance(answer(run, join(token="t2")), members.MemberAdmitted)
    assert run.state.revoked == {}


def test_no_more_keys_are_revoked_than_the_bus_can_be_told():
    run = with_token(uses=9, auto_approve=True)
    run.state.settings["revoked_max"] = 2
    for number in range(4):
        answer(run, join(f"n{number}", f"U{number}"))
        run.given(NodeChanged(node=f"n{number}", change="delete"))
    assert list(run.state.revoked) == ["U2", "U3"]


def test_a_machine_that_waits_can_be_turned_away():
    run = with_token()
    answer(run, join())
    assert isinstance(answer(run, approval(approved=False)), members.MemberRejected)
    assert "is no member" in refusal(run.given(credential()))
    said = "refused: node = n3 — does not wait for approval"
    assert refusal(run.given(approval())) == said


def test_a_member_is_not_turned_away_but_deleted():
    run = with_token(auto_approve=True)
    answer(run, join())
    said = "refused: node = n3 — has joined; headrace node delete n3"
    assert refusal(run.given(approval(approved=False))) == said


def test_a_credential_is_for_the_members_own_key():
    run = with_token(auto_approve=True)
    answer(run, join())
    assert "is no member with this key" in refusal(run.given(credential(key="UB")))


def test_what_is_known_of_tokens_and_members_survives_a_snapshot():
    run = with_token(uses=2)
    answer(run, join())
    run.restored()
    assert isinstance(answer(run, approval()), members.MemberAdmitted)
    assert isinstance(answer(run, join("n4", "UB")), members.JoinWaiting)
    assert "was used already" in refusal(run.given(join("n5", "UC")))


def test_a_key_is_one_nodes_or_publishers():
    run = with_token(uses=9, auto_approve=True)
    queue = Queue(queue="vision", kind="project")
    run.given(QueueConfigured(name="vision", queue=queue, change="created"))
    run.given(PublisherRequested(project="vision", name="etl", public_key="UP"))
    run.turn()
    said = (
        "refused: public_key — is that of {}; join from an empty node folder, which makes another"
    )
    assert refusal(run.given(join(key="UP"))) == said.format("a publisher")
    answer(run, join(node="n3", key="UA"))
    answer(run, token("t2", auto_approve=True))
    assert refusal(run.given(join(node="n4", key="UA", token="t2"))) == said.format("node n3")
    run.given(NodeChanged(node="n3", change="delete"))
    assert isinstance(answer(run, join(node="n4", key="UA", token="t2")), members.MemberAdmitted)

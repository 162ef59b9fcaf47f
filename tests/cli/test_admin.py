"""What administrators set, and what people are told when nobody answers."""

import base64
import json
import stat

from tests.cli.program import accept, in_log
from tests.gateway.histories import admitted, joined, requested

from headrace.bus.credentials import user_key_bytes
from headrace.client.model import publisher_text
from headrace.events.asked import Workspace
from headrace.vault import verify


async def test_a_secret_is_read_from_stdin_and_shown_nowhere(world, headrace):
    await accept(world, "secret.set", version="v1")
    code, out, err = await headrace("secret", "set", "KEY", "-p", "vision", stdin=b"hunter2\r\n")
    assert (code, out) == (0, "secret KEY set  project vision  version v1\n")
    assert "hunter2" not in out + err
    assert b"hunter2" not in world.asked[0].data
    assert (await headrace("secret", "set", "KEY", stdin=b""))[0] == 120


async def test_apply_tells_what_became_of_each_document(world, headrace):
    text = b"type: department\nname: research\n---\ntype: project\nname: ads\n"
    changes = iter(["created", "unchanged"])
    await world.answer(
        "queue.apply", lambda _: {"accepted": True, "position": 0, "change": next(changes)}
    )
    code, out, _ = await headrace("apply", "-f", "-", stdin=text)
    assert (code, out) == (0, "department research created · project ads unchanged\n")


async def test_a_pool_is_applied_where_pools_are_decided(world, headrace, tmp_path):
    (tmp_path / "pool.yaml").write_text("type: pool\nname: train\nnodes: {label: pool=train}\n")
    await accept(world, "pool.apply", change="created")
    assert (await headrace("apply", "pool.yaml"))[:2] == (0, "pool train created\n")


async def test_apply_tells_what_it_was_warned_of(world, headrace, tmp_path):
    (tmp_path / "ads.yaml").write_text("type: project\nname: ads\n")
    await accept(world, "queue.apply", change="created", warning="accepted, but it is large")
    said = "project ads created (accepted, but it is large)\n"
    assert (await headrace("apply", "ads.yaml"))[:2] == (0, said)


async def test_nothing_is_applied_of_a_file_that_is_not_understood(world, headrace, tmp_path):
    text = "type: project\nname: ads\n---\ntype: pool\nname: train\nnode: x\n"
    (tmp_path / "fleet.yaml").write_text(text)
    code, _, err = await headrace("apply", "fleet.yaml")
    assert (code, err) == (120, "refused: node — unknown field; did you mean nodes? (line 6)\n")
    assert world.asked == []


async def test_a_publisher_gets_a_credential_file_that_only_its_owner_reads(
    world, headrace, tmp_path
):
    await accept(world, "publisher.create", jwt="eyJ.a.b")
    code, out, _ = await headrace("publisher", "create", "etl", "-p", "ads")
    path = tmp_path / "etl.creds"
    text = path.read_text()
    asked = json.loads(world.asked[0].data)
    assert code == 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "eyJ.a.b" in text
    assert "\nSU" in text
    assert asked["public_key"].startswith("U")
    text_signed = publisher_text("ads", "etl", asked["at_s"])
    assert verify(
        user_key_bytes(asked["public_key"]), text_signed, base64.b64decode(asked["signature"])
    )
    assert (
        "nats --creds etl.creds --inbox-prefix _INBOX_pub_ads_etl req headrace.request.ads.etl"
        in out
    )
    assert (await headrace("publisher", "create", "etl", "-p", "ads"))[0] == 1
    assert path.read_text() == text


async def test_a_publisher_is_deleted_by_name(world, headrace):
    await accept(world, "publisher.delete")
    code, out, _ = await headrace("publisher", "delete", "etl", "-p", "ads")
    assert (code, out) == (0, "publisher etl deleted  project ads  its key is refused\n")
    assert json.loads(world.asked[0].data) == {"name": "etl"}


async def test_erasing_asks_first(world, headrace):
    await accept(world, "project.erase")
    assert (await headrace("erase", "vision"))[0] == 2
    assert world.asked == []
    code, out, _ = await headrace("erase", "vision", "--yes")
    assert (code, out) == (0, "project vision erased at position 0\n")


async def test_nodes_are_cordoned_by_name(world, headrace):
    await in_log(world, joined())
    await accept(world, "node.change")
    assert (await headrace("node", "cordon", "n1"))[1] == "n1 cordoned\n"
    assert json.loads(world.asked[0].data) == {"node": "n1", "change": "cordon"}
    assert (await headrace("node", "cordon"))[0] == 2


async def test_an_unreachable_platform_has_its_own_exit_code(headrace):
    code, _, err = await headrace("ps", HEADRACE_URL="http://127.0.0.1:9")
    assert code == 122
    assert err == (
        "headrace: http://127.0.0.1:9: nobody listens there (headrace up starts a platform)\n"
    )


async def test_a_wrong_token_is_said_in_one_line(headrace):
    code, _, err = await headrace("ps", HEADRACE_TOKEN="wrong")
    assert (code, err) == (1, "headrace: the token is not valid here\n")


async def test_a_publishers_login_is_renewed_with_its_key_in_its_file(world, headrace, tmp_path):
    await accept(world, "publisher.create", jwt="eyJ.a.b")
    await accept(world, "publisher.renew", jwt="eyJ.a.c")
    await headrace("publisher", "create", "etl", "-p", "ads")
    path = tmp_path / "etl.creds"
    before = path.read_text()
    code, out, _ = await headrace("publisher", "renew", "etl", "-p", "ads")
    assert (code, out) == (0, "publisher etl renewed  project ads  credential etl.creds\n")
    assert path.read_text() == before.replace("eyJ.a.b", "eyJ.a.c")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    made, renewed = (json.loads(message.data) for message in world.asked)
    assert renewed["public_key"] == made["public_key"]
    assert world.asked[1].headers["Headrace-Actor"] == "publisher:ads/etl"
    (tmp_path / "other.creds").write_text("nothing")
    code, _, err = await headrace("publisher", "renew", "other", "-p", "ads")
    assert (code, err) == (1, "headrace publisher: other.creds: it holds no user's seed\n")


async def test_a_workspace_is_ended_when_it_is_known_what_goes_with_it(world, headrace):
    await accept(world, "job.cancel")
    app = Workspace(port=8888, app="jupyter")
    await in_log(
        world, requested("desk-a", workspace=app), admitted("desk-a"), requested(), admitted()
    )
    code, out, err = await headrace("cancel", "hello-a", "desk-a")
    assert (code, out, world.asked) == (1, "", [])
    assert "ends desk-a: what is in its folder is kept until its project needs the room" in err
    assert (await headrace("cancel", "hello-a"))[0] == 0
    assert (await headrace("cancel", "desk-a", "--yes"))[1] == "desk-a  cancelling\n"
    assert len(world.asked) == 2

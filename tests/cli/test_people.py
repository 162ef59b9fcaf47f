"""Who one is, and how roles and tokens are given."""

import hashlib
import json

from tests.cli.program import accept, in_log
from tests.gateway.people import person, secret_of, tree


async def test_whoami_tells_the_roles_of_a_token(world, headrace):
    assert (await headrace("whoami"))[:2] == (0, "admin\n  admin of the whole fleet\n")
    await in_log(world, *tree(), *person("ada", ("researcher", "vision")))
    code, out, _ = await headrace("whoami", "--token", secret_of("ada"))
    assert (code, out) == (0, "ada\n  researcher of vision\n")


async def test_a_token_is_made_here_shown_once_and_known_by_its_digest(world, headrace):
    await in_log(world, *tree(), *person("ada", ("researcher", "vision")))
    await accept(world, "token.create")
    words = ("--name", "ci", "--scope", "job.*", "--expires", "90d", "-p", "vision")
    code, out, _ = await headrace("token", "create", *words, "--token", secret_of("ada"))
    shown = out.split()[0]
    asked = json.loads(world.asked[0].data)
    assert code == 0
    assert asked == {
        "token": shown.split("_")[1],
        "digest": hashlib.sha256(shown.encode()).hexdigest(),
        "user": "ada",
        "name": "ci",
        "scopes": ["job.*"],
        "projects": ["vision"],
        "lasts_s": 90 * 86_400,
    }
    assert world.asked[0].headers["Headrace-Actor"] == "ada"


async def test_tokens_and_roles_are_listed(world, headrace):
    await in_log(world, *tree(), *person("ada", ("researcher", "vision")))
    code, out, _ = await headrace("token", "list")
    assert (code, out.split("\n")[1].split()) == (0, ["id-ada", "ada", "–", "all", "never"])
    code, out, _ = await headrace("role", "list", "-p", "vision")
    assert out.split("\n")[1].split() == ["user:ada", "researcher", "vision", "grant"]
    code, out, _ = await headrace("user", "list")
    assert out.split("\n")[1].split() == ["ada", "person", "–", "–"]


async def test_a_role_is_given_and_taken_by_name(world, headrace):
    await in_log(world, *tree())
    await accept(world, "role.grant")
    await accept(world, "role.revoke")
    code, out, _ = await headrace("role", "grant", "ada", "viewer", "--in", "vision")
    assert (code, out) == (0, "user:ada is now viewer of vision\n")
    code, out, _ = await headrace("role", "revoke", "group:all", "viewer")
    assert (code, out) == (0, "group:all is no more viewer of the whole fleet\n")
    assert json.loads(world.asked[1].data) == {"member": "group:all", "role": "viewer", "scope": ""}


async def test_a_role_of_the_whole_fleet_is_asked_about(world, headrace):
    await in_log(world, *tree())
    await accept(world, "role.grant")
    code, out, err = await headrace("role", "grant", "ada", "admin")
    assert (code, out, world.asked) == (1, "", [])
    assert err == (
        "makes user:ada admin of the whole fleet; --in PROJECT gives it in one alone\n"
        "headrace role: nothing was done; say --yes to do it\n"
    )
    code, out, _ = await headrace("role", "grant", "ada", "admin", "--yes")
    assert (code, out) == (0, "user:ada is now admin of the whole fleet\n")


async def test_users_and_services_are_set_and_removed(world, headrace):
    await in_log(world, *tree())
    await accept(world, "user.set", change="created")
    await accept(world, "user.remove")
    words = ("user", "set", "airflow", "--service", "--acts-for", "-p", "vision")
    assert (await headrace(*words))[:2] == (0, "service:vision/airflow created\n")
    asked = json.loads(world.asked[0].data)
    assert asked == {"user": "service:vision/airflow", "account": {"acts_for": True}}
    removed = await headrace("user", "remove", "service:vision/airflow")
    assert removed[:2] == (0, "service:vision/airflow removed\n")
    assert json.loads(world.asked[1].data) == {"user": "service:vision/airflow"}
    assert (await headrace("user", "set", "ada", "--group", "g"))[0] == 0
    assert (await headrace("user", "remove", "ada"))[:2] == (0, "user ada removed\n")
    assert (await headrace("user", "set", "ada", "--acts-for"))[0] == 2


async def test_what_one_may_not_is_refused_in_one_line(world, headrace):
    await in_log(world, *tree(), *person("ada", ("viewer", "vision")))
    words = ("cancel", "nothing-x", "--token", secret_of("ada"))
    code, _, err = await headrace(*words)
    assert code in (1, 120)
    assert err.count("\n") == 1
    code, _, err = await headrace("node", "cordon", "n1", "--token", secret_of("ada"))
    assert code == 120
    assert err == (
        "refused: access = node.change — ada is viewer of vision; admin of the whole fleet may\n"
    )

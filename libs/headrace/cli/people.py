"""`whoami`, `user`, `role` and `token`: who may do what."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from headrace.cli.actions import add_action, add_actions, show_list
from headrace.cli.arguments import add_connection, add_output, duration_us
from headrace.cli.confirmation import add_yes, is_confirmed
from headrace.cli.exits import DONE, FAILED, USAGE, printable, report
from headrace.cli.output import moment, show
from headrace.client.client import Client
from headrace.client.people import SERVICE
from headrace.client.people_model import RoleRow

FLEET = "the whole fleet"
USERS = ("USER", "KIND", "BELONGS TO", "GROUPS")
ROLES = ("MEMBER", "ROLE", "SCOPE", "BY")
TOKENS = ("TOKEN", "USER", "FOR", "GOOD FOR", "EXPIRES")


def whoami_options(parser: ArgumentParser) -> None:
    """The arguments of `whoami`."""
    add_connection(parser)
    add_output(parser)


def whoami(*, url: str, token: str, project: str, output: str) -> int:
    """Say who the token stands for, and with which roles."""
    del project
    me = Client.from_config(url=url, token=token).whoami()
    if output in ("json", "yaml"):
        show(me, output)
        return DONE
    print(printable(f"{me.user} via {me.via}" if me.via else me.user))
    for role in me.roles:
        print(printable(f"  {role.role} of {role.scope or FLEET}"))
    if not me.roles:
        print("  without a role: an admin of a project gives one (headrace role grant)")
    if me.scopes or me.projects:
        print(printable(f"  this token: {' '.join((*me.scopes, *me.projects))} only"))
    return DONE


def user_options(parser: ArgumentParser) -> None:
    """The arguments of `user`: an action, and its own."""
    actions = add_actions(parser)
    add_output(add_action(actions, "list", "users on record"))
    made = add_action(actions, "set", "make or change a person or a service", "name")
    made.add_argument("--group", action="append", default=[], help="a group they are in")
    made.add_argument("--service", action="store_true", help="a program, which -p owns")
    made.add_argument("--acts-for", action="store_true", help="may ask in the names of people")
    add_action(actions, "remove", "let them in no more", "name")


def user(*, action: str, url: str, token: str, project: str, **given: Any) -> int:
    """List, make, change or remove users."""
    client = Client.from_config(url=url, token=token)
    if action == "list":
        rows = client.users()
        cells = [[row.user, row.kind, row.home or "–", " ".join(row.groups) or "–"] for row in rows]
        return show_list(rows, USERS, cells, given["output"])
    name = given["name"]
    if action == "remove":
        client.remove_user(name)
        print(printable(f"{_called(name)} removed"))
        return DONE
    if given["service"]:
        answer = client.set_service(name, home=project, acts_for=given["acts_for"])
        name = f"{SERVICE}{project}/{name}" if project else f"{SERVICE}{name}"
    elif given["acts_for"]:
        return report("headrace user: --acts-for needs --service", USAGE)
    else:
        answer = client.set_user(name, groups=given["group"])
    print(printable(f"{_called(name)} {answer.change or 'set'}"))
    return DONE


def role_options(parser: ArgumentParser) -> None:
    """The arguments of `role`: an action, and its own."""
    actions = add_actions(parser)
    shown = add_action(actions, "list", "who has which role where")
    shown.add_argument(
        "--member", default="", help="only of user:ada, group:team or service:vision/etl"
    )
    add_output(shown)
    for name, about in (("grant", "give a role"), ("revoke", "take it")):
        changed = add_action(actions, name, about, "member", "role")
        changed.add_argument(
            "--in", dest="scope", default="", help=f"a department or project; else {FLEET}"
        )
        add_yes(changed)


def role(*, action: str, url: str, token: str, project: str, **given: Any) -> int:
    """List, give or take roles."""
    client = Client.from_config(url=url, token=token)
    if action == "list":
        rows = client.roles(member=given["member"], scope=project)
        return show_list(rows, ROLES, [_role_cells(row) for row in rows], given["output"])
    member = given["member"] if ":" in given["member"] else f"user:{given['member']}"
    scope = given["scope"] or project
    wide = [f"makes {member} {given['role']} of {FLEET}; --in PROJECT gives it in one alone"]
    asked = wide if action == "grant" and not scope else []
    if not is_confirmed("headrace role", asked, is_sure=given["yes"]):
        return FAILED
    act = client.grant_role if action == "grant" else client.revoke_role
    act(member, given["role"], scope)
    said = "is now" if action == "grant" else "is no more"
    print(printable(f"{member} {said} {given['role']} of {scope or FLEET}"))
    return DONE


def token_options(parser: ArgumentParser) -> None:
    """The arguments of `token`: an action, and its own."""
    actions = add_actions(parser)
    shown = add_action(actions, "list", "API tokens, without their secrets")
    add_output(shown)
    made = add_action(actions, "create", "make an API token; it is shown once")
    made.add_argument("--name", default="", help="what it is for")
    made.add_argument(
        "--scope", action="append", default=[], help="NOUN.VERB, * for either; may be repeated"
    )
    made.epilog = f"scopes, by noun:\n{_scopes()}"
    made.add_argument("--expires", type=duration_us, default=0, help="such as 90d; else never")
    for parsed in (shown, made):
        parsed.add_argument("--user", default="", help="service:PROJECT/NAME; else yourself")
    add_action(actions, "revoke", "take one back, by its id", "id")


def token(*, action: str, url: str, token: str, project: str, **given: Any) -> int:
    """List, make or revoke API tokens. With -p a new one is good for that project only."""
    client = Client.from_config(url=url, token=token)
    if action == "revoke":
        client.revoke_token(given["id"])
        print(printable(f"token {given['id']} revoked"))
        return DONE
    if action == "list":
        rows = client.tokens(given["user"])
        cells = [
            [row.token, row.user, row.name or "–", " ".join((*row.scopes, *row.projects)) or "all",
             moment(row.expires_at_us) if row.expires_at_us else "never"]
            for row in rows
        ]  # fmt: skip
        return show_list(rows, TOKENS, cells, given["output"])
    made = client.create_token(
        user=given["user"],
        name=given["name"],
        scopes=given["scope"],
        projects=[project] if project else [],
        lasts_s=given["expires"] // 1_000_000,
    )
    print(f"{made.text}   shown once (HEADRACE_TOKEN); revoke: headrace token revoke {made.id}")
    return DONE


def _called(user: str) -> str:
    return user if user.startswith(SERVICE) else f"user {user}"


def _role_cells(row: RoleRow) -> list[str]:
    return [row.member, row.role, row.scope or FLEET, "its document" if row.listed else "grant"]


def _scopes() -> str:
    """What a token can be narrowed to, a line per noun."""
    from headrace.access.table import MAY, NOUNS

    verbs = {noun: [verb for of, verb in MAY if of == noun] for noun in NOUNS}
    return "\n".join(f"  {noun:<10}  {' '.join(verbs[noun])}" for noun in NOUNS)

"""`publisher`: credentials with which pipelines publish jobs on the bus.

Rule: the private key is made here and leaves this machine only in the file that is written.
"""

from __future__ import annotations

import os
from argparse import ArgumentParser

from headrace.cli.actions import add_action, add_actions, show_list
from headrace.cli.arguments import add_output
from headrace.cli.exits import DONE, FAILED, printable, report
from headrace.cli.output import moment
from headrace.client.client import Client

PUBLISHERS = ("PUBLISHER", "PROJECT", "CREATED", "KEY")

CREDENTIALS = """-----BEGIN NATS USER JWT-----
{jwt}
------END NATS USER JWT------

************************* IMPORTANT *************************
NKEY Seed printed below can be used to sign and prove identity.
NKEYs are sensitive and should be treated as secrets.

-----BEGIN USER NKEY SEED-----
{seed}
------END USER NKEY SEED------

*************************************************************
"""


def publisher_options(parser: ArgumentParser) -> None:
    """The arguments of `publisher`: an action, and its own."""
    actions = add_actions(parser)
    add_output(add_action(actions, "list", "who publishes jobs on the bus"))
    made = add_action(actions, "create", "let a pipeline publish a project's jobs", "name")
    add_action(actions, "delete", "let a pipeline publish no more", "name")
    made.add_argument("--out", default="", metavar="FILE", help="NAME.creds by default")


def publisher(*, action: str, url: str, token: str, project: str, **given: str) -> int:
    """List publishers, make one, or end one."""
    client = Client.from_config(url=url, token=token, project=project)
    if action == "create":
        return _created(client, given["name"], given["out"])
    if action == "delete":
        client.delete_publisher(given["name"])
        name = printable(given["name"])
        print(f"publisher {name} deleted  project {printable(client.project)}  its key is refused")
        return DONE
    rows = client.publishers(project)
    cells = [[row.name, row.project, moment(row.created_at_us), row.public_key] for row in rows]
    return show_list(rows, PUBLISHERS, cells, given["output"])


def _created(client: Client, name: str, out: str) -> int:
    """Make a key, let it publish the project's jobs, and write its credential file (0600)."""
    path = out or f"{name}.creds"
    if os.path.exists(path):
        return report(f"headrace publisher: {path} exists already; it was left as it is", FAILED)
    seed, public_key = _new_key()
    answer = client.create_publisher(name, public_key)
    if not answer.jwt:
        return report(
            f"headrace publisher: {name} was accepted but no credential came back", FAILED
        )
    with open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(CREDENTIALS.format(jwt=answer.jwt, seed=seed).encode("ascii"))
    print(
        printable(f"publisher {name} created  project {client.project}  credential {path} (0600)")
    )
    print(_example(path, name, client.project))
    return DONE


def _new_key() -> tuple[str, str]:
    """The seed and the public key of a new NATS user."""
    import nkeys

    pair = nkeys.from_seed(nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER))
    try:
        return pair.seed.decode(), pair.public_key.decode()
    finally:
        pair.wipe()


def _example(path: str, name: str, project: str) -> str:
    return (
        f"  nats --creds {path} --inbox-prefix _INBOX_pub_{project}_{name}"
        f" req headrace.request.{project}.{name}.job.submit -H ce-id:run-1"
        " -H ce-type:headrace.job.submit.v1 -H ce-source:/pipeline -H ce-specversion:1.0"
        ' "$(cat job.json)"'
    )

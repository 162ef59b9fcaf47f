"""`publisher`: credentials with which pipelines publish jobs on the bus.

Rule: the private key is made here and leaves this machine only in the file that is written.
"""

from __future__ import annotations

import base64
import os
import shlex
import time
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from headrace.cli.actions import add_action, add_actions, show_list
from headrace.cli.arguments import add_output
from headrace.cli.exits import DONE, FAILED, printable, report
from headrace.cli.output import moment
from headrace.client.client import Client
from headrace.client.model import publisher_text

PUBLISHERS = ("PUBLISHER", "PROJECT", "CREATED", "EXPIRES", "KEY")

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
    renewed = add_action(
        actions, "renew", "a new login for its key, before the old one ends", "name"
    )
    renewed.add_argument("--creds", default="", metavar="FILE", help="NAME.creds by default")
    made.add_argument(
        "--durable", action="store_true", help="it hears what happened while it was away, too"
    )
    made.add_argument("--out", default="", metavar="FILE", help="NAME.creds by default")


def publisher(*, action: str, url: str, token: str, project: str, **given: Any) -> int:
    """List publishers, make one, renew its login, or end it."""
    client = Client.from_config(url=url, token=token, project=project)
    if action == "create":
        return _created(client, given["name"], given["out"], durable=bool(given["durable"]))
    if action == "renew":
        return _renewed(client, given["name"], given["creds"])
    if action == "delete":
        client.delete_publisher(given["name"])
        name = printable(given["name"])
        print(f"publisher {name} deleted  project {printable(client.project)}  its key is refused")
        return DONE
    rows = client.publishers(project)
    cells = [
        [
            row.name,
            row.project,
            moment(row.created_at_us),
            moment(row.expires_at_us) if row.expires_at_us else "",
            row.public_key,
        ]
        for row in rows
    ]
    return show_list(rows, PUBLISHERS, cells, given["output"])


def _created(client: Client, name: str, out: str, *, durable: bool) -> int:
    """Make a key, let it publish the project's jobs, and write its credential file (0600), and beside it
    what a pipeline needs besides.
    """
    path = out or f"{name}.creds"
    if os.path.exists(path):
        return report(f"headrace publisher: {path} exists already; it was left as it is", FAILED)
    seed = _new_seed()
    at_s = int(time.time())
    public_key, signature = _proof(seed, publisher_text(client.project, name, at_s))
    answer = client.create_publisher(name, public_key, signature, at_s=at_s, durable=durable)
    if not answer.jwt:
        return report(
            f"headrace publisher: {name} was accepted but no credential came back", FAILED
        )
    with open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(CREDENTIALS.format(jwt=answer.jwt, seed=seed).encode("ascii"))
    bus = client.status().bus.url
    beside = _write_beside(path, name, client.project, bus)
    kind = "durable publisher" if durable else "publisher"
    print(
        printable(
            f"{kind} {name} created  project {client.project}  credential {path} (0600)"
            f"  bus {bus or 'at an address that the gateway was not told'} ({beside})"
        )
    )
    print(printable(_example(path, name, client.project, bus)))
    return DONE


def _write_beside(path: str, name: str, project: str, bus: str) -> str:
    """A file for a shell to read: where the bus is, as the NATS command line takes it."""
    beside = f"{path.removesuffix('.creds')}.env"
    lines = {
        "NATS_URL": bus,
        "NATS_CREDS": os.path.abspath(path),
        "HEADRACE_PROJECT": project,
        "HEADRACE_PUBLISHER": name,
        "HEADRACE_INBOX_PREFIX": f"_INBOX_pub_{project}_{name}",
    }
    text = "".join(f"export {key}={shlex.quote(value)}\n" for key, value in lines.items())
    Path(beside).write_text(text, encoding="utf-8")
    return beside


def _renewed(client: Client, name: str, creds: str) -> int:
    """Put a new login for the same key into the publisher's credential file."""
    path = Path(creds or f"{name}.creds")
    try:
        lines = path.read_text(encoding="ascii").splitlines()
        seed = next(line for line in lines if line.startswith("SU"))
    except (OSError, UnicodeDecodeError, StopIteration) as error:
        why = getattr(error, "strerror", None) or "it holds no user's seed"
        return report(f"headrace publisher: {path}: {why}", FAILED)
    at_s = int(time.time())
    public_key, signature = _proof(seed, publisher_text(client.project, name, at_s))
    answer = client.renew_publisher(name, public_key, signature, at_s=at_s)
    new = path.with_name(f"{path.name}.new")
    with open(new, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(CREDENTIALS.format(jwt=answer.jwt, seed=seed).encode("ascii"))
    new.replace(path)
    print(printable(f"publisher {name} renewed  project {client.project}  credential {path}"))
    return DONE


def _new_seed() -> str:
    """The seed of a new NATS user."""
    import nkeys

    return bytes(nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER)).decode()


def _proof(seed: str, text: bytes) -> tuple[str, str]:
    """The seed's public key, and its signature (base64) over the text."""
    import nkeys

    pair = nkeys.from_seed(bytearray(seed.encode()))
    try:
        return pair.public_key.decode(), base64.b64encode(pair.sign(text)).decode()
    finally:
        pair.wipe()


def _example(path: str, name: str, project: str, bus: str) -> str:
    server = f" --server {bus}" if bus else ""
    return (
        f"  nats{server} --creds {path} --inbox-prefix _INBOX_pub_{project}_{name}"
        f" req headrace.request.{project}.{name}.job.submit -H ce-id:run-1"
        " -H ce-type:headrace.job.submit.v1 -H ce-source:/pipeline -H ce-specversion:1.0"
        ' "$(cat job.json)"'
    )

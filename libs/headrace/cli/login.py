"""`login`: sign in on a platform from this machine, and remember it as a context.

Rule: the identity provider sees who signs in and we see what it says of them; the password is typed
into the provider's own page. What is kept here (0600) is an API token that expires.
Semantics: OAuth 2.0 Device Authorization Grant, RFC 8628.
"""

from __future__ import annotations

import http.client
import json
import socket
import sys
import time
import urllib.error
import urllib.request
from argparse import ArgumentParser
from typing import Any
from urllib.parse import urlencode, urlsplit

from headrace.cli.arguments import duration_us
from headrace.cli.exits import DONE, FAILED, printable, report
from headrace.client.client import Client
from headrace.client.people_model import Entrance

SCOPE = "openid email profile groups"
GRANT = "urn:ietf:params:oauth:grant-type:device_code"
LASTS = "7d"
ANSWER_S_MAX = 15.0
ANSWER_BYTES_MAX = 1_048_576
INTERVAL_S, SLOWER_S = 5, 5  # between two questions, and what the provider may add to it
CODE_S_MAX = 1_800  # for which a code is waited for, whatever the provider says


def login_options(parser: ArgumentParser) -> None:
    """The arguments of `login`."""
    parser.add_argument("url", metavar="URL", help="of the platform, such as https://head:7400")
    parser.add_argument("--token", default="", help="an API token instead; - is standard input")
    parser.add_argument(
        "--for",
        dest="lasts_us",
        type=duration_us,
        default=duration_us(LASTS),
        help=f"how long the token made here lasts ({LASTS})",
    )
    parser.add_argument("-p", "--project", default="default", help="of jobs that name none")
    parser.add_argument("--context", default="", help="its name here; else the host's")
    parser.add_argument("--certificate", default="", help="the platform's, when it made its own")


def login(
    *, url: str, token: str, lasts_us: int, project: str, context: str, certificate: str
) -> int:
    """Sign in, and make the platform the current context."""
    from headrace.embedded.contexts import write_context

    given = sys.stdin.readline().strip() if token == "-" else token  # noqa: S105
    if not given:
        try:
            given = _signed_in(Client(url, "", project, certificate).entrance())
        except _Failed as failed:
            return report(f"headrace login: {failed}", FAILED)
        client = Client(url, given, project, certificate)
        name = f"login on {socket.gethostname()}"[:128]
        given = client.create_token(name=name, lasts_s=lasts_us // 1_000_000).text
    me = Client(url, given, project, certificate).whoami()
    name = context or (urlsplit(url).hostname or "platform").replace(".", "-")
    path = write_context(name, url, given, certificate, project=project, is_current=True)
    roles = ", ".join(f"{role.role} of {role.scope or 'the whole fleet'}" for role in me.roles)
    print(
        printable(f"you are {me.user}: {roles or 'without a role yet'}   context {name} in {path}")
    )
    return DONE


class _Failed(Exception):
    """The provider did not let in who asked."""


def _signed_in(entrance: Entrance) -> str:
    """The ID token of whoever types the code in at the provider. Raises `_Failed`."""
    asked = _post(entrance.device_url, {"client_id": entrance.client_id, "scope": SCOPE})
    try:
        code, shown = str(asked["device_code"]), str(asked["user_code"])
        where = str(asked.get("verification_uri_complete") or asked["verification_uri"])
        interval_s = int(asked.get("interval") or INTERVAL_S)
        lasts_s = min(CODE_S_MAX, int(asked.get("expires_in") or CODE_S_MAX))
    except (KeyError, ValueError, TypeError):
        raise _Failed(_said(asked)) from None
    print(
        printable(f"open {where}\n  and check that it shows the code {shown}").replace("\\n", "\n")
    )
    deadline_s = time.monotonic() + lasts_s
    form = {"grant_type": GRANT, "device_code": code, "client_id": entrance.client_id}
    while time.monotonic() < deadline_s:
        time.sleep(interval_s)
        answer = _post(entrance.token_url, form)
        if isinstance(answer.get("id_token"), str):
            return str(answer["id_token"])
        if answer.get("error") == "slow_down":
            interval_s += SLOWER_S
        elif answer.get("error") != "authorization_pending":
            raise _Failed(_said(answer))
    raise _Failed("nobody typed the code in; run it again")


def _said(answer: dict[str, Any]) -> str:
    why = answer.get("error_description") or answer.get("error") or "with nothing of use"
    return f"the identity provider answers: {str(why)[:200]}"


def _post(url: str, form: dict[str, str]) -> dict[str, Any]:
    """What the provider answers, errors too. Raises `_Failed`."""
    parts = urlsplit(url)
    if parts.scheme != "https" and parts.hostname not in ("127.0.0.1", "localhost", "::1"):
        raise _Failed("the identity provider must be reached by https://")
    request = urllib.request.Request(url, urlencode(form).encode())  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_S_MAX) as answer:  # noqa: S310
            data = answer.read(ANSWER_BYTES_MAX)
    except urllib.error.HTTPError as error:
        data = error.read(ANSWER_BYTES_MAX)
    except (OSError, http.client.HTTPException) as error:
        raise _Failed(f"{url}: {error}") from None
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise _Failed(f"{url} does not answer with JSON") from None
    return found if isinstance(found, dict) else {}

"""How a machine becomes a node: it proves its token once, waits to be approved, signs in.

Rule: it only ever dials out. A token goes over TLS or to this very machine, and nowhere else. What
may heal is asked again; what is refused ends in one line.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable, Mapping
from typing import Protocol
from urllib.parse import urlsplit

import msgspec

from headrace import trust
from headrace.bus import credentials
from headrace.client.connection import Connection
from headrace.client.errors import ClientError, Refused
from headrace.client.model import Answer, joining_text, signed_text
from headrace.node_agent.identity import own_keys
from headrace.node_agent.membership import Member, NodeFolder
from headrace.node_agent.settings import host_name
from headrace.trust import join_token
from headrace.trust.order import Order

LOOK_S = 300.0  # between two looks at whether the credential is due to be renewed
POLL_S = 2.0  # between two questions whether the node is approved
RETRY_S_MIN, RETRY_S_MAX = 0.1, 10.0  # while the platform cannot be reached
LOOPBACK = ("127.0.0.1", "::1", "localhost")
HTTPS_PORT, HTTP_PORT = 443, 80

_LOG = logging.getLogger("headrace.node_agent")


class Reconnecting(Protocol):
    """A bus that can sign in again."""

    async def reconnect(self) -> None: ...


class NotAdmitted(Exception):
    """The platform does not take this machine, and the line says why."""


def join(folder: NodeFolder, order: Order) -> Answer:
    """Prove the token; `change` in the answer is waiting or approved. Raises `NotAdmitted`,
    `ClientError`, `OSError`, `ValueError`.
    """
    token = join_token.parse(order.token)
    parts = urlsplit(order.url)
    host = parts.hostname or ""
    if parts.scheme != "https" and host not in LOOPBACK:
        raise NotAdmitted(f"refused: {order.url} — a token goes over https only")
    if token.pin and parts.scheme == "https":
        port = parts.port or HTTPS_PORT
        folder.keep_certificate(_certificate(host, port, token.pin))
    at_s, seed = int(time.time()), folder.seed()
    asked = {
        "node": order.node,
        "token": order.token,
        "public_key": credentials.public_key(seed),
        "at_s": at_s,
        "signature": credentials.sign(seed, joining_text(order.node, at_s)),
        "box_key": own_keys(folder.path)[1],
        "host": host_name(),
    }
    answer = _asked(folder, order.url, "/v1/join", asked)
    folder.joined(Member(node=order.node, url=order.url, address=_own_address(order.url)))
    return answer


def sign_in(folder: NodeFolder, member: Member) -> bool:
    """Ask for leave to sign in to the bus; false while the node waits for approval. Raises
    `NotAdmitted`, `ClientError`, `OSError`.
    """
    at_s, seed = int(time.time()), folder.seed()
    asked = {
        "node": member.node,
        "public_key": credentials.public_key(seed),
        "at_s": at_s,
        "signature": credentials.sign(seed, signed_text(member.node, at_s)),
    }
    answer = _asked(folder, member.url, "/v1/credential", asked)
    if not answer.accepted:
        return False
    folder.sign_in(answer.jwt, answer.grant_key)
    folder.joined(msgspec.structs.replace(member, bus=answer.bus))
    return True


def is_due(folder: NodeFolder) -> bool:
    """Whether half of the credential's time is over."""
    left_s, lasts_s = folder.credential_left_s()
    return left_s <= lasts_s / 2


def enter(folder: NodeFolder, *, pause: Callable[[float], None] = time.sleep) -> Member:
    """The member this machine is, joined and signed in, however long that takes: the platform may
    be away, an administrator may have to approve it. Raises `NotAdmitted`, `OSError`, `ValueError`.
    """
    retry_s, said = RETRY_S_MIN, ""
    while True:
        try:
            member = _signed_in(folder)
            line, wait_s = f"waiting for approval: headrace node approve {folder.name()}", POLL_S
        except ClientError as error:
            member = None
            line, wait_s = f"the platform is not reached yet: {error}", retry_s
            retry_s = min(retry_s * 2, RETRY_S_MAX)
        if member is not None:
            return member
        if line != said:
            _LOG.info("%s", line)
            said = line
        pause(wait_s)


async def renewing(folder: NodeFolder, bus: Reconnecting) -> None:
    """Renew the credential in time, for as long as the node is a member. Raises `NotAdmitted`."""
    while True:
        await asyncio.sleep(LOOK_S)
        member = folder.member()
        if member is None or not is_due(folder):
            continue
        try:
            if await asyncio.to_thread(sign_in, folder, member):
                await bus.reconnect()  # the server ends a connection with its credential
        except ClientError as error:
            _LOG.warning("credential not renewed yet: %s", error)


def _signed_in(folder: NodeFolder) -> Member | None:
    """The member with a credential; None while it waits for approval."""
    member = folder.member()
    if member is None:
        join(folder, folder.ordered())
        return _signed_in(folder)
    left_s, _ = folder.credential_left_s()
    if member.bus and not is_due(folder):
        return member
    try:
        return folder.member() if sign_in(folder, member) else None
    except ClientError:
        if member.bus and left_s > 0:
            return member  # the gateway is away, the bus may be there
        raise


def _asked(folder: NodeFolder, url: str, path: str, body: Mapping[str, object]) -> Answer:
    connection = Connection(url, "", folder.certificate)
    try:
        return connection.change("POST", path, msgspec.json.encode(body), key=lambda: "")
    except Refused as error:
        if (error.answer.refusal or {}).get("field") == "clock":
            raise ClientError(str(error)) from None  # it may be set yet
        folder.leave()
        raise NotAdmitted(str(error)) from None
    finally:
        connection.close()


def _certificate(host: str, port: int, pin: str) -> str:
    try:
        return trust.pinned(host, port, pin)
    except trust.Untrusted as error:
        raise NotAdmitted(f"refused: {error}") from None
    except OSError as error:
        raise ClientError(f"{host}:{port}: {error}") from None


def _own_address(url: str) -> str:
    """The address of this machine on the way to the platform. Nothing is sent."""
    parts = urlsplit(url)
    port = parts.port or (HTTPS_PORT if parts.scheme == "https" else HTTP_PORT)
    family, kind, protocol, _, where = socket.getaddrinfo(
        parts.hostname, port, type=socket.SOCK_DGRAM
    )[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.connect(where)
        return str(probe.getsockname()[0])

"""Who may do what on the bus: NATS operator, account and user JWTs, made here.

Rule: a user's private key is made by the user and never travels; the account's seed signs what its
public key may do. Adding a user needs no change and no reload of the server.
Format: NATS JWT version 2 (`ed25519-nkey`), https://docs.nats.io/running-a-nats-service/configuration/securing_nats/auth_intro/jwt
"""

from __future__ import annotations

import base64
import hashlib
import os
import time
from collections.abc import Iterable
from typing import Any

import msgspec
import nkeys

from headrace.bus.subjects import node_inbox, outcomes_next, publisher_inbox, token

ACCOUNT = "HEADRACE"
_STORAGE_BYTES_MAX = 32 * 2**30  # streams reserve what they may take: 16 MiB for a project's posts
PUBLISHER_SUBSCRIPTIONS_MAX = 64
PUBLISHER_PAYLOAD_BYTES_MAX = 524_288  # twice what a request may have, so that most are told so
_FOR_EVER_S = 253_402_300_799  # the end of the year 9999: clocks need not agree


class Permissions(msgspec.Struct, frozen=True, kw_only=True):
    """Subjects a user may publish to and subscribe to; `answers` lets it reply to requests. -1 is as
    many subscriptions of a connection, and bytes of a message, as the server takes of anybody.
    """

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]
    answers: bool = False
    subscriptions_max: int = -1
    payload_bytes_max: int = -1


def node_permissions(node: str) -> Permissions:
    """A node agent speaks for itself and hears what is meant for it."""
    return Permissions(
        publish=(f"headrace.agent.{token(node)}.up.>",),
        subscribe=(f"headrace.agent.{node}.down.>", f"{node_inbox(node)}.>"),
        answers=True,
    )


def publisher_permissions(project: str, name: str, *, durable: bool = False) -> Permissions:
    """A pipeline sends requests about its project's jobs, under its own name, and reads its project's
    outcomes. Answers come to an inbox of its own: what others are answered may hold secrets. So do
    the receipts of what it posted, on subjects of its own. A `durable` one may also ask the platform
    for the outcomes it missed; no publisher has a right on JetStream's own subjects.
    """
    return Permissions(
        publish=(
            f"headrace.request.{token(project)}.{token(name)}.job.*",
            f"headrace.post.{project}.{name}.job.*",
            *((outcomes_next(project, name),) if durable else ()),
        ),
        subscribe=(
            f"headrace.event.{project}.>",
            f"headrace.posted.{project}.{name}.>",
            f"{publisher_inbox(project, name)}.>",
        ),
        subscriptions_max=PUBLISHER_SUBSCRIPTIONS_MAX,
        payload_bytes_max=PUBLISHER_PAYLOAD_BYTES_MAX,
    )


def new_seed(prefix: int) -> str:
    """A new NKey seed. `prefix` is one of nkeys' `PREFIX_BYTE_…`."""
    return bytes(nkeys.encode_seed(os.urandom(32), prefix)).decode()


def new_operator_seed() -> str:
    """A new operator's seed, `SO…`."""
    return new_seed(nkeys.PREFIX_BYTE_OPERATOR)


def new_account_seed() -> str:
    """A new account's seed, `SA…`."""
    return new_seed(nkeys.PREFIX_BYTE_ACCOUNT)


def new_user_seed() -> str:
    """A new user's seed, `SU…`."""
    return new_seed(nkeys.PREFIX_BYTE_USER)


def public_key(seed: str) -> str:
    """The public key of a seed."""
    return bytes(_pair(seed).public_key).decode()


def is_user_key(key: str) -> bool:
    """Whether `key` is a well-formed public NKey of a user: `U…`, 56 characters, checksum right."""
    try:
        user_key_bytes(key)
    except ValueError:
        return False
    return True


def user_key_bytes(key: str) -> bytes:
    """The Ed25519 key in a user's public NKey. Raises `ValueError`."""
    raw = base64.b32decode(key.encode("ascii"))
    if len(raw) != 35 or raw[0] != nkeys.PREFIX_BYTE_USER:
        raise ValueError("this is no user's key")
    if int.from_bytes(raw[-2:], "little") != int(nkeys.crc16(bytearray(raw[:-2]))):
        raise ValueError("this key was mistyped")
    return raw[1:-2]


def operator_jwt(operator_seed: str, system_account: str) -> str:
    """The operator's own JWT, which the server trusts. `system_account` is a public key."""
    claims = {"type": "operator", "version": 2, "system_account": system_account}
    return _signed(operator_seed, public_key(operator_seed), "headrace", claims)


def account_jwt(
    operator_seed: str, account: str, name: str, *, streams: bool, revoked: Iterable[str] = ()
) -> str:
    """The JWT of the account with public key `account`; `streams` gives it JetStream. Users with
    the keys in `revoked` are not let in, whenever their JWTs were made.
    """
    storage = _STORAGE_BYTES_MAX if streams else 0
    limits = {
        "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": True,
        "conn": -1, "leaf": -1, "mem_storage": storage, "disk_storage": storage,
        "streams": -1 if streams else 0, "consumer": -1 if streams else 0,
    }  # fmt: skip
    claims: dict[str, Any] = {"type": "account", "version": 2, "limits": limits}
    if keys := dict.fromkeys(revoked, _FOR_EVER_S):
        claims["revocations"] = keys
    return _signed(operator_seed, account, name, claims)


def user_jwt(
    account_seed: str, user: str, name: str, permissions: Permissions, *, expires_at_s: int = 0
) -> str:
    """The JWT of the user with public key `user`; 0: it does not expire."""
    claims: dict[str, Any] = {
        "type": "user",
        "version": 2,
        "pub": {"allow": list(permissions.publish)},
        "sub": {"allow": list(permissions.subscribe)},
        "subs": permissions.subscriptions_max,
        "data": -1,
        "payload": permissions.payload_bytes_max,
    }
    if permissions.answers:
        claims["resp"] = {"max": 1, "ttl": 60_000_000_000}
    return _signed(account_seed, user, name, claims, expires_at_s=expires_at_s)


def creds_text(jwt: str, seed: str) -> str:
    """A credentials file as every NATS client reads it. To be kept like a password."""
    return (
        f"-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    )


def new_creds(account_seed: str, name: str, permissions: Permissions) -> str:
    """The credentials file of a new user."""
    seed = new_user_seed()
    return creds_text(user_jwt(account_seed, public_key(seed), name, permissions), seed)


def allows(creds: str, permissions: Permissions) -> bool:
    """Whether a credentials file's JWT gives exactly these permissions."""
    jwt = next((line for line in creds.splitlines() if line.count(".") == 2), "")
    try:
        claims = _claims(jwt)["nats"]
        publish, subscribe = claims["pub"]["allow"], claims["sub"]["allow"]
    except (ValueError, LookupError, TypeError):
        return False
    said = (tuple(publish), tuple(subscribe), "resp" in claims)
    return said == (permissions.publish, permissions.subscribe, permissions.answers)


def claims_subject(account: str) -> str:
    """Where a server is told the account's new JWT."""
    return f"$SYS.REQ.ACCOUNT.{account}.CLAIMS.UPDATE"


def revoker_permissions(account: str) -> Permissions:
    """Of the system account's user that tells servers whom the account revokes."""
    return Permissions(publish=(claims_subject(account),), subscribe=("_INBOX_revoker.>",))


def server_config(operator_seed: str, account_seed: str, system_seed: str) -> str:
    """The part of a NATS server's configuration that makes it trust these keys."""
    system, account = public_key(system_seed), public_key(account_seed)
    accounts = {
        system: account_jwt(operator_seed, system, "SYS", streams=False),
        account: account_jwt(operator_seed, account, ACCOUNT, streams=True),
    }
    preload = "\n".join(f"  {key}: {jwt}" for key, jwt in accounts.items())
    return (
        f"operator: {operator_jwt(operator_seed, system)}\n"
        f"system_account: {system}\n"
        f"resolver: MEMORY\nresolver_preload: {{\n{preload}\n}}\n"
    )


def expiry_s(jwt: str) -> int:
    """When this JWT expires, in seconds since 1970; 0 when it does not. Raises `ValueError`."""
    try:
        return int(_claims(jwt).get("exp", 0))
    except (AttributeError, TypeError) as error:
        raise ValueError("this is no JWT") from error


def _claims(jwt: str) -> Any:
    """What it says, whoever signed it. Raises `ValueError`."""
    try:
        body = jwt.split(".")[1]
        return msgspec.json.decode(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    except (IndexError, AttributeError, TypeError, msgspec.DecodeError) as error:
        raise ValueError("this is no JWT") from error


def sign(seed: str, data: bytes) -> str:
    """A signature of the seed's key over `data`, in base64."""
    return base64.b64encode(_pair(seed).sign(data)).decode()


def _signed(
    issuer_seed: str, subject: str, name: str, claims: dict[str, Any], *, expires_at_s: int = 0
) -> str:
    body: dict[str, Any] = {
        "iat": int(time.time()),
        "iss": public_key(issuer_seed),
        "name": name,
        "sub": subject,
        "nats": claims,
    }
    if expires_at_s:
        body["exp"] = expires_at_s
    digest = hashlib.sha256(msgspec.json.encode(body)).digest()
    body["jti"] = base64.b32encode(digest).decode().rstrip("=")
    head = _part({"typ": "JWT", "alg": "ed25519-nkey"})
    text = f"{head}.{_part(body)}"
    return f"{text}.{_base64(_pair(issuer_seed).sign(text.encode()))}"


def _part(value: dict[str, Any]) -> str:
    return _base64(msgspec.json.encode(value))


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _pair(seed: str) -> nkeys.KeyPair:
    return nkeys.from_seed(bytearray(seed.encode()))

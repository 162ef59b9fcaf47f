"""What the agent's process is told about its node, from `HEADRACE_*` variables and the machine."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from pathlib import Path

import msgspec

from headrace.bus.subjects import token
from headrace.events.accounts import BY_ACCOUNTS, BY_USER_NAMESPACES, UNISOLATED
from headrace.node_agent.folders import KEPT, Kept
from headrace.node_agent.gang_network import network
from headrace.node_agent.isolation import views
from headrace.node_agent.isolation.accounts import COUNT, FIRST, Accounts
from headrace.node_agent.isolation.cgroups import AUTO, CHOICES
from headrace.node_agent.membership import Member, NodeFolder, bus_url
from headrace.node_agent.workplaces.repositories import PROTOCOLS

PORTS = "20000-20499"
DAY_S = 86_400
OUTPUT_MB = 1_000
NUMBER_MAX = 1_000_000
NUMBERS_END = 2**32 - 2  # of accounts: the kernel has no others
ENGINES = ("/run/docker.sock", "/var/run/docker.sock")
NO_ENGINE = "none"
IMAGES_GB = 200  # fetched and kept


class NodeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """One node, as configured. What is empty here was learned when the machine joined."""

    node: str
    node_dir: Path
    gpus: str  # auto, none, static:FILE, or simulated:8xH100-80GB
    ports: tuple[int, int]
    address: str
    labels: dict[str, str]
    nats_url: str
    nats_creds: str
    nats_certificate: str
    url: str  # where the platform is now, and its certificate: a file
    certificate: str
    keys_dir: Path
    run_dir: Path
    http: str
    attempt_journal: str
    isolation: str
    hidden: tuple[Path, ...]  # folders of the platform that no job sees, beside the agent's own
    shown: tuple[Path, ...]  # what every job sees in /tmp, /var/tmp beside its own
    network: str
    accounts: Accounts
    kept: Kept
    output_bytes_max: int  # of one process's output
    git_protocols: tuple[str, ...]
    engine: str  # where the container engine is (unix:///path); empty: there is none
    images_bytes_max: int

    def folders_hidden(self) -> tuple[Path, ...]:
        """The platform's own, and its engine's socket: what no job sees or has mounted."""
        socket = (Path(self.accounts.engine),) if self.accounts.engine else ()
        return (self.keys_dir, self.run_dir, *self.hidden, *socket)

    @classmethod
    def read(cls, env: Mapping[str, str] = os.environ) -> NodeSettings:
        """From the environment. Raises `SystemExit` with one line naming what is wrong."""
        if not env.get("HEADRACE_NODE_DIR"):
            raise SystemExit("headrace node_agent: HEADRACE_NODE_DIR must be set")
        run_dir = Path(env.get("HEADRACE_RUN_DIR", env["HEADRACE_NODE_DIR"]))
        try:
            engine = _engine(env.get("HEADRACE_NODE_ENGINE", AUTO))
            return cls(
                node=token(env["HEADRACE_NODE"]) if env.get("HEADRACE_NODE") else "",
                node_dir=Path(env["HEADRACE_NODE_DIR"]).absolute(),
                gpus=env.get("HEADRACE_NODE_GPUS", "auto"),
                ports=_ports(env.get("HEADRACE_NODE_PORTS", PORTS)),
                address=env.get("HEADRACE_NODE_ADDRESS", ""),
                labels=_pairs(
                    "HEADRACE_NODE_LABELS",
                    env.get("HEADRACE_NODE_LABELS", ""),
                    "site=berlin,rack=r1",
                ),
                nats_url=env.get("HEADRACE_NATS_URL", ""),
                nats_creds=env.get("HEADRACE_NATS_CREDS", ""),
                nats_certificate=env.get("HEADRACE_NATS_CERTIFICATE", ""),
                url=env.get("HEADRACE_URL", ""),
                certificate=env.get("HEADRACE_CERTIFICATE", ""),
                keys_dir=Path(env.get("HEADRACE_KEYS_DIR", run_dir)),
                run_dir=run_dir,
                http=env.get("HEADRACE_HTTP", "127.0.0.1:0"),
                attempt_journal=_absolute(env.get("HEADRACE_ATTEMPT_JOURNAL", "")),
                isolation=_choice("HEADRACE_NODE_ISOLATION", env, CHOICES),
                hidden=_folders(env.get("HEADRACE_NODE_HIDDEN", "")),
                shown=_folders(env.get("HEADRACE_NODE_SHOWN", "")),
                network=_choice("HEADRACE_NODE_NETWORK", env, network.CHOICES),
                accounts=_accounts(env, engine),
                kept=_kept(env),
                output_bytes_max=_number("HEADRACE_NODE_OUTPUT_MB", env, OUTPUT_MB) * 10**6,
                git_protocols=_words(env.get("HEADRACE_NODE_GIT", ",".join(PROTOCOLS))),
                engine=engine,
                images_bytes_max=_gigabytes("HEADRACE_NODE_IMAGES_GB", env, IMAGES_GB),
            )
        except ValueError as error:
            raise SystemExit(f"headrace node_agent: {error}") from None

    def joined(self, member: Member, folder: NodeFolder) -> NodeSettings:
        """The same, and what joining told where the environment says nothing."""
        return msgspec.structs.replace(
            self,
            node=self.node or member.node,
            address=self.address or member.address,
            nats_url=self.nats_url or bus_url(member),
            nats_creds=self.nats_creds or folder.creds,
            nats_certificate=self.nats_certificate or folder.certificate,
            keys_dir=folder.path,
        )


def host_name() -> str:
    """The machine's own name, for people."""
    return socket.gethostname()


def _absolute(path: str) -> str:
    return os.path.abspath(path) if path else ""


def _choice(name: str, env: Mapping[str, str], choices: tuple[str, ...]) -> str:
    value = env.get(name, choices[0])
    if value not in choices:
        raise ValueError(f"{name} = {value!r} is not {' or '.join(choices)}")
    return value


def _kept(env: Mapping[str, str]) -> Kept:
    days = _number("HEADRACE_NODE_KEPT_DAYS", env, KEPT.for_s // DAY_S)
    attempts = _number("HEADRACE_NODE_KEPT_ATTEMPTS", env, KEPT.attempts)
    return Kept(attempts=attempts, for_s=days * DAY_S)


def _number(name: str, env: Mapping[str, str], otherwise: int) -> int:
    text = env.get(name, str(otherwise))
    if not (text.isdecimal() and 1 <= int(text) <= NUMBER_MAX):
        raise ValueError(f"{name} = {text!r} is not a number from 1 to {NUMBER_MAX}")
    return int(text)


def _accounts(env: Mapping[str, str], engine: str) -> Accounts:
    first = env.get("HEADRACE_NODE_ACCOUNTS", str(FIRST))
    if not (first.isdecimal() and 0 < int(first) <= NUMBERS_END - COUNT):
        raise ValueError(f"HEADRACE_NODE_ACCOUNTS = {first!r} is not the first of {COUNT} numbers")
    isolation = BY_ACCOUNTS
    if os.geteuid() != 0:
        isolation = BY_USER_NAMESPACES if views.granted() else UNISOLATED
    return Accounts(
        first=int(first),
        isolation=isolation,
        trusted=env.get("HEADRACE_NODE_TRUSTED", ""),
        engine=engine.removeprefix("unix://"),
        users=_pairs(
            "HEADRACE_NODE_USERS", env.get("HEADRACE_NODE_USERS", ""), "ada=ada,bob=u1001"
        ),
    )


def _folders(text: str) -> tuple[Path, ...]:
    return tuple(Path(path).absolute() for path in text.split(os.pathsep) if path)


def _words(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (word.strip() for word in text.split(","))))


def _engine(text: str) -> str:
    """Where the engine is; with `auto`, where one is that the agent may use."""
    if text == AUTO:
        usable = (path for path in ENGINES if os.access(path, os.R_OK | os.W_OK))
        return next((f"unix://{path}" for path in usable), "")
    if text != NO_ENGINE and not text.startswith("unix:///"):
        raise ValueError(f"HEADRACE_NODE_ENGINE = {text!r} is not auto, none or unix:///path")
    return "" if text == NO_ENGINE else text


def _gigabytes(name: str, env: Mapping[str, str], otherwise: int) -> int:
    text = env.get(name, str(otherwise))
    if not text.isdecimal():
        raise ValueError(f"{name} = {text!r} is not a number of gigabytes")
    return int(text) * 10**9


def _ports(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    if not (first.isdecimal() and last.isdecimal() and 1024 <= int(first) <= int(last) <= 65535):
        raise ValueError(f"HEADRACE_NODE_PORTS = {text!r} is not like {PORTS}")
    return int(first), int(last)


def _pairs(variable: str, text: str, example: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = part.partition("=")
        if not (name and equals):
            raise ValueError(f"{variable} = {text!r} is not like {example}")
        pairs[name] = value
    return dict(sorted(pairs.items()))

"""The weak spots of what this machine keeps of a platform, for `headrace doctor --security`: the data
folder of `headrace up`, its settings and environment, and the command line's own configuration.

Rule: files and modes are read, no process and no server is asked, and nothing is made or changed.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from headrace.bundles.thinning import FREE_BYTES_MIN
from headrace.doctor import Check, failed, named, ok, warning
from headrace.embedded import EmbeddedError, settings
from headrace.embedded.layout import Layout
from headrace.embedded.platform import state
from headrace.embedded.settings import Settings

OTHERS = stat.S_IRWXG | stat.S_IRWXO
READ_OR_WRITTEN = OTHERS & ~(stat.S_IXGRP | stat.S_IXOTH)  # to pass through is no harm
LOOPBACK = ("127.0.0.1", "::1", "localhost")
CERTIFICATE_ENDS = timedelta(days=30)
PROVEN = ("verify-full", "verify-ca")
CAPS = ("HEADRACE_ADMISSION_JOBS_PER_PROJECT_MAX", "HEADRACE_ADMISSION_JOBS_PER_USER_MAX")
PROXIES, RESERVE, NOTED = (
    "HEADRACE_TRUSTED_PROXIES",
    "HEADRACE_FILES_FREE_BYTES_MIN",
    "HEADRACE_NOTED",
)

Environment = Mapping[str, str]


def of_data_folder(layout: Layout, url: str = "") -> Iterator[Check]:
    """Of the platform that is kept here. `url` is where its gateway is asked ("": not known)."""
    try:
        wanted, env = settings.read(layout), environment_of(layout)
        yield check_modes(layout)
        yield from check_certificate(layout, wanted)
    except (EmbeddedError, OSError) as error:
        yield warning("platform", str(error), f"as who runs the platform in {layout.data_dir}")
        return
    yield check_listening(wanted)
    yield check_played(wanted)
    yield check_trust(wanted)
    yield check_database(env.get("HEADRACE_PG_DSN", ""))
    yield check_bus(env.get("HEADRACE_NATS_URL", ""))
    yield check_bus_logins(wanted, env)
    yield check_proxy(env.get(PROXIES, ""), wanted, url)
    yield check_caps(wanted, env)
    yield check_disk(layout, env)
    yield check_noted(os.environ)


def environment_of(layout: Layout) -> Environment:
    """What the running platform was told; if none runs, what the next one would be told."""
    running = state(layout)
    if running is None:
        return os.environ
    text = Path(f"/proc/{running.process.pid}/environ").read_bytes().decode(errors="replace")
    return dict(word.partition("=")[::2] for word in text.split("\0") if word)


def check_modes(layout: Layout) -> Check:
    """Whether anybody but its owner gets at the platform's keys, tokens and files."""
    kept = layout.data_dir
    keys = [path for top in (layout.secrets, layout.keys) for path in (top, *top.rglob("*"))]
    weak = [path for path in keys if path.lstat().st_mode & OTHERS]
    weak += [
        path
        for path in (kept, *kept.iterdir())
        if path not in weak and path.lstat().st_mode & READ_OR_WRITTEN
    ]
    weak = [path for path in weak if not path.is_symlink()]
    if weak:
        found = f"others may use {named([str(path) for path in weak])}"
        return failed(
            "secrets", found, f"chmod -R go= {layout.secrets} {layout.keys}; chmod 700 {kept}"
        )
    return ok("secrets", f"{kept}: its owner's alone")


def check_listening(wanted: Settings) -> Check:
    """Whether tokens cross a network in clear."""
    if wanted.is_local or wanted.tls:
        return ok("listening", wanted.listen + (" with TLS" if wanted.tls else ""))
    found = f"{wanted.listen} without TLS: tokens and output cross the network in clear"
    return failed("listening", found, "headrace up --tls-self-signed, or --tls-cert and --tls-key")


def check_certificate(layout: Layout, wanted: Settings) -> Iterator[Check]:
    """When the platform's certificate ends. Raises `OSError`."""
    file = Path(wanted.tls_certificate) if wanted.tls_certificate else layout.secrets / "tls.pem"
    if not wanted.tls or not file.exists():
        return
    from cryptography import x509

    try:
        end = x509.load_pem_x509_certificate(file.read_bytes()).not_valid_after_utc
    except ValueError:
        yield failed(
            "certificate", f"{file} has none", "headrace up --tls-cert FILE --tls-key FILE"
        )
        return
    fix = "headrace up --tls-cert FILE --tls-key FILE, with one that was renewed"
    if end < datetime.now(UTC):
        yield failed("certificate", f"ended on {end:%Y-%m-%d}", fix)
    elif end < datetime.now(UTC) + CERTIFICATE_ENDS:
        yield warning("certificate", f"ends on {end:%Y-%m-%d}", fix)
    else:
        yield ok("certificate", f"good until {end:%Y-%m-%d}")


def check_played(wanted: Settings) -> Check:
    """Whether others' jobs run on the machine that has the platform's keys."""
    if wanted.nodes and not wanted.is_local:
        found = f"{wanted.nodes} run jobs of everybody who reaches {wanted.listen}, beside the keys"
        return warning("played", found, "headrace up --nodes 0, and let other machines join")
    return ok(
        "played", f"{wanted.nodes} nodes on this machine" if wanted.nodes else "no nodes here"
    )


def check_trust(wanted: Settings) -> Check:
    """Whether an administrator let everybody's jobs run where nothing isolates them."""
    if wanted.trust_everybody:
        found = "--trust-everybody: where a node cannot isolate jobs, they all read the keys here"
        return failed("trust", found, "headrace up --no-trust-everybody")
    return ok("trust", "where a node cannot isolate jobs, it runs the admin's alone")


def check_database(dsn: str) -> Check:
    """A database of the installation's own: whether its password and the log cross in clear."""
    parts = urlsplit(dsn)
    asked = parse_qs(parts.query)
    host = asked.get("host", [parts.hostname or ""])[0]
    if not host or host in LOOPBACK or host.startswith("/"):
        return ok("postgres", "on this machine")
    if asked.get("sslmode", [""])[0] in PROVEN:
        return ok("postgres", f"{host}, which proves itself")
    fix = "add ?sslmode=verify-full&sslrootcert=FILE to HEADRACE_PG_DSN"
    return failed("postgres", f"{host}: whoever answers there is believed to be the log", fix)


def check_bus(url: str) -> Check:
    """A bus of the installation's own: whether messages cross a network in clear."""
    parts = urlsplit(url)
    if not url or parts.scheme == "tls" or parts.hostname in LOOPBACK:
        return ok("bus", "encrypted, or on this machine")
    found = f"{parts.hostname}: messages cross the network in clear"
    return failed("bus", found, "HEADRACE_NATS_URL=tls://…, with a certificate")


def check_bus_logins(wanted: Settings, env: Environment) -> Check:
    """Whether the bus knows services and nodes apart: one of the installation's own does not."""
    if not wanted.external_nats:
        return ok("senders", "each service, node and publisher has a login of its own")
    fix = "deploy/prepare.py makes logins and trust.conf for a server of your own; or unset HEADRACE_NATS_URL"
    if not env.get("HEADRACE_NATS_CREDS"):
        return failed("senders", "your NATS lets in who has no login: anybody speaks for all", fix)
    return warning("senders", "services and nodes have one login: each may speak for all", fix)


def check_proxy(proxies: str, wanted: Settings, url: str) -> Check:
    """Whether the gateway knows who asks through a proxy."""
    words = [word.strip() for word in proxies.split(",") if word.strip()]
    if everybody := [word for word in words if word.endswith("/0")]:
        found = f"{everybody[0]} is believed about who asks: that is anybody"
        return failed("proxy", found, f"{PROXIES}=ADDRESS of the proxy alone")
    if not words and urlsplit(url).scheme == "https" and not wanted.tls:
        found = f"{url} is a proxy that is not believed: everybody has its address, and one limit"
        return warning("proxy", found, f"{PROXIES}=ADDRESS of the proxy")
    return ok("proxy", f"{', '.join(words)} alone is believed" if words else "none is believed")


def check_caps(wanted: Settings, env: Environment) -> Check:
    """Whether anybody chose how much of the platform one project may take."""
    if wanted.is_local or any(cap in env for cap in CAPS):
        return ok(
            "caps", "of live jobs are chosen" if not wanted.is_local else "one person's platform"
        )
    found = "of live jobs of a project and of a user are the defaults"
    return warning("caps", found, f"choose {CAPS[0]} and {CAPS[1]} (docs/limits.md)")


def check_disk(layout: Layout, env: Environment) -> Check:
    """Whether files are still taken, and the log has room."""
    free = shutil.disk_usage(layout.data_dir).free
    given = env.get(RESERVE, "")
    reserve = int(given) if given.isdecimal() else FREE_BYTES_MIN
    found = f"{free / 1e9:.1f} GB free at {layout.data_dir}"
    if free < reserve:
        fix = f"make room, or set {RESERVE}; no folder is taken meanwhile"
        return failed("disk", f"{found}: below the reserve of {reserve / 1e9:g} GB", fix)
    return ok("disk", found)


def check_noted(env: Environment) -> Check:
    """Whether a log that was cut off, or written anew as a whole, would be noticed."""
    if noted := env.get(NOTED, ""):
        return ok("noted", f"verify compares the log with {noted.partition(':')[0]}")
    found = "the database's owner can cut the log off, or write it anew, and verify passes"
    fix = f"keep what headrace verify prints on another machine, and set {NOTED}=POSITION:HASH"
    return warning("noted", found, fix)

"""The gateway's process.

Rule: whatever cannot be mended from inside ends the process; its supervisor starts it again.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from pathlib import Path

import uvloop

from headrace import telemetry
from headrace.bus import subjects
from headrace.bus.interface import BusError
from headrace.bus.nats import NatsBus
from headrace.bus.presence import Presence
from headrace.gateway.app import application
from headrace.gateway.authenticating import Provider
from headrace.gateway.follower import Follower
from headrace.gateway.gateway import Gateway
from headrace.gateway.keeping import erasing_files
from headrace.gateway.oidc_settings import OidcSettings
from headrace.gateway.server import (
    Server,
    listen,
    raise_file_limit,
    trusted_proxies,
    write_port,
)
from headrace.gateway.trust import Trust
from headrace.runtime.collecting import collect_seldom
from headrace.runtime.environment import Environment
from headrace.runtime.presence import resident_bytes, say_presence
from headrace.store.interface import StoreError
from headrace.store.postgres import PostgresStore
from headrace.trust.workspace_places import Places

_LOG = logging.getLogger("headrace.gateway")


def main() -> None:
    """Serve until SIGTERM or SIGINT. Exits 1 when the process must be replaced."""
    telemetry.start("gateway")
    environment = Environment.read("gateway")
    collect_seldom()
    try:
        uvloop.run(_run(environment))
    except (StoreError, BusError, OSError, ValueError) as error:
        _LOG.error("gateway ends error=%s: %s", type(error).__name__, error)
        raise SystemExit(1) from None
    finally:
        telemetry.stop()


async def _run(environment: Environment) -> None:
    lost, files_dir = asyncio.Event(), _files_dir()
    trust = Trust.read(
        os.environ, nats_url=environment.nats_url, grant_key=environment.key("grant.pub")
    )
    store = await PostgresStore.connect(environment.pg_dsn)
    bus = await NatsBus.connect(
        environment.nats_url,
        creds_path=environment.nats_creds,
        certificate=environment.nats_certificate,
        name="gateway",
        inbox_prefix=subjects.service_inbox("gateway"),
        on_lost=lost.set,
    )
    gateway = Gateway(
        store=store,
        bus=bus,
        follower=Follower(store, bus, time.monotonic),
        token=_token(),
        vault_key=environment.key("vault.pub"),
        files_dir=files_dir,
        trust=trust,
        provider=_provider(),
        metrics_token=environment.metrics_token(),
        places=Places(os.environ.get("HEADRACE_WORKSPACE_DOMAIN", "")),
    )
    try:
        await _serve(gateway, environment, lost)
    finally:
        await bus.close()
        await store.close()


async def _serve(gateway: Gateway, environment: Environment, lost: asyncio.Event) -> None:
    raise_file_limit()
    listening = listen(environment.http)
    proxies = trusted_proxies(os.environ.get("HEADRACE_TRUSTED_PROXIES", ""))
    server = Server(application(gateway), listening, gateway.trust, proxies)
    write_port(environment.run_dir / "gateway.port", listening)
    await gateway.progress.listen(gateway.bus)
    await gateway.instances.listen(gateway.bus)
    following = asyncio.create_task(gateway.follower.run())
    erasing = asyncio.create_task(erasing_files(gateway.follower, gateway.keeper))
    saying = asyncio.create_task(gateway.uses.run())
    files = gateway.keeper.identity()
    being = asyncio.create_task(
        say_presence(
            gateway.bus,
            lambda: Presence(
                service="gateway",
                instance=environment.instance,
                position=gateway.follower.projection.position,
                memory_bytes=resident_bytes(),
                files=files,
            ),
        )
    )
    await gateway.node_files.open()
    serving = asyncio.create_task(server.run_until_stopped())
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, server.stop)
    gone = asyncio.create_task(lost.wait())
    await asyncio.wait([following, serving, gone], return_when=asyncio.FIRST_COMPLETED)
    gateway.follower.close()
    server.stop()
    await serving
    gone.cancel()
    erasing.cancel()
    saying.cancel()
    being.cancel()
    await gateway.node_files.close()
    if lost.is_set():
        raise ConnectionError("the bus is gone for good")
    if following.done():
        following.result()
    following.cancel()


def _files_dir() -> Path:
    """Where the files of projects are kept. There is no default: it has to outlive this process, and to be
    the same for all gateways.
    """
    path = os.environ.get("HEADRACE_FILES_DIR", "")
    if not path:
        raise SystemExit(
            "headrace gateway: HEADRACE_FILES_DIR must be set: a folder that stays, one for all gateways"
        )
    return Path(path)


def _provider() -> Provider | None:
    """The identity provider that people sign in with, if one is set."""
    settings = OidcSettings.read(os.environ)
    if settings is None:
        return None
    from headrace.gateway.oidc import Oidc

    return Oidc(settings)


def _token() -> str:
    path = os.environ.get("HEADRACE_TOKEN_FILE", "")
    if not path:
        raise SystemExit("headrace gateway: HEADRACE_TOKEN_FILE must be set")
    return Path(path).read_text(encoding="ascii").strip()


if __name__ == "__main__":
    main()

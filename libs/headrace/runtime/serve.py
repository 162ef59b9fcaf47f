"""The process of a service: connects it, runs its host, answers for its health, ends cleanly.

Rule: whatever cannot be mended from inside ends the process; its supervisor starts it again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import time
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial

import uvloop

from headrace import telemetry
from headrace.bus import subjects
from headrace.bus.interface import BusError
from headrace.bus.nats import NatsBus
from headrace.bus.presence import Presence
from headrace.decider.version import decision_version
from headrace.runtime.collecting import collect_seldom
from headrace.runtime.environment import Environment
from headrace.runtime.health import METRICS, Answer, Health, counters_text, json_answer
from headrace.runtime.host import Host
from headrace.runtime.limits import settings_of
from headrace.runtime.pipelines.outcomes_door import OutcomesDoor
from headrace.runtime.presence import resident_bytes, say_presence
from headrace.runtime.relay import Relay
from headrace.runtime.service import Service
from headrace.runtime.stepping_back import step_back
from headrace.store.interface import StoreError
from headrace.store.postgres import PostgresStore

STOP_S = 10.0  # a turn, a snapshot and closing; then the process ends anyway

_LOG = logging.getLogger("headrace.serve")


def serve(name: str, service_of: Callable[[Environment], Service]) -> None:
    """Run the service until SIGTERM or SIGINT. Exits 1 when the process must be replaced."""
    telemetry.start(name)
    environment = Environment.read(name)
    collect_seldom()
    try:
        service = service_of(environment)
        service = replace(service, settings=settings_of(name, service.settings))
        step_back(service.niceness)
        uvloop.run(_run(name, service, environment))
    except (StoreError, BusError, OSError) as error:
        _LOG.error("%s ends error=%s: %s", name, type(error).__name__, error)
        raise SystemExit(1) from None
    finally:
        telemetry.stop()


def signing_in(
    environment: Environment, creds: str, name: str
) -> Callable[[], Coroutine[None, None, NatsBus]]:
    """How to connect to the bus with another login than the service's own."""
    return lambda: NatsBus.connect(
        environment.nats_url,
        creds_text=creds,
        certificate=environment.nats_certificate,
        name=name,
        inbox_prefix=f"_INBOX_{name}",
    )


async def _run(name: str, service: Service, environment: Environment) -> None:
    lost = asyncio.Event()
    store = await PostgresStore.connect(environment.pg_dsn)
    bus = await _bus(environment, name, lost)
    host = Host(
        service,
        store=store,
        bus=bus,
        vault=store,
        monotonic_s=time.monotonic,
        holder=environment.instance,
        decision_version=decision_version(),
    )
    health = Health(pages(host), environment.metrics_token())
    await health.start(environment.http, environment.run_dir / f"{name}.port")
    try:
        await _until_stopped(host, lost, environment)
    finally:
        await health.stop()
        await bus.close()
        await store.close()


async def _bus(
    environment: Environment, service: str, lost: asyncio.Event, *, name: str = ""
) -> NatsBus:
    return await NatsBus.connect(
        environment.nats_url,
        creds_path=environment.nats_creds,
        certificate=environment.nats_certificate,
        name=name or service,
        inbox_prefix=subjects.service_inbox(service),
        on_lost=lost.set,
    )


async def _until_stopped(host: Host, lost: asyncio.Event, environment: Environment) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    running = [asyncio.create_task(host.run())]
    running.append(
        asyncio.create_task(say_presence(host.bus, partial(_presence, host, environment)))
    )
    if host.service.relay:
        running.append(asyncio.create_task(_relay(host, environment, lost)))
    ends = [asyncio.create_task(stop.wait()), asyncio.create_task(lost.wait())]
    done, _ = await asyncio.wait([*running, *ends], return_when=asyncio.FIRST_COMPLETED)
    await host.stop()
    with contextlib.suppress(TimeoutError):
        if running[0] not in done:
            await asyncio.wait_for(asyncio.shield(running[0]), STOP_S)
    for task in [*running, *ends]:
        task.cancel()
    for task in running:
        if task in done:
            task.result()
    if lost.is_set():
        raise ConnectionError("the bus is gone for good")


def _presence(host: Host, environment: Environment) -> Presence:
    return Presence(
        service=host.service.decider.service,
        instance=environment.instance,
        leading=host.leading,
        epoch=host.epoch,
        position=host.position,
        memory_bytes=resident_bytes(),
    )


async def _relay(host: Host, environment: Environment, lost: asyncio.Event) -> None:
    """On a connection of its own: the server stores a stream's messages before it reads on, and
    the service's own messages must not wait for that.
    """
    bus = await _bus(environment, host.service.decider.service, lost, name="relay")
    relay, door = Relay(host.store, bus), OutcomesDoor(bus)
    host.on_folded = relay.heard
    try:
        await asyncio.gather(relay.run(), door.run())
    finally:
        await bus.close()


def pages(host: Host) -> dict[str, Callable[[], Answer]]:
    """What the service answers over HTTP, by path."""
    name = host.service.decider.service

    def ready() -> Answer:
        is_ready = host.bus.connected and host.position > 0
        body = {
            "service": name,
            "ready": is_ready,
            "leading": host.leading,
            "epoch": host.epoch,
            "position": host.position,
            "bus": host.bus.connected,
        }
        if host.service.condition is not None:
            body |= host.service.condition(host.state)
        return json_answer(200 if is_ready else 503, body)

    def metrics() -> Answer:
        text = counters_text(name, host.counters, host.position)
        if host.service.metrics is not None and host.leading:
            text += host.service.metrics(host.state)
        return 200, "text/plain; version=0.0.4", text.encode()

    return {
        "/livez": lambda: json_answer(200, {"service": name}),
        "/readyz": ready,
        METRICS: metrics,
    }

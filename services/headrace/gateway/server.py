"""The HTTP server, started and stopped by us.

Rule: it does nothing while nobody asks: no polling, no signal handlers of its own, no line per
request.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import resource
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import uvicorn

from headrace.gateway.incoming import Incoming
from headrace.gateway.trust import PLAIN, Trust

KEEP_ALIVE_S = 65  # a client's connection without a request; longer than usual proxies'
STOP_S = 3  # for requests in flight; streams are told to end
MESSAGE_BYTES_MAX = 1_048_576  # of one message on a WebSocket
CONNECTIONS_WAITING_MAX = 1_024  # not accepted yet


class Server(uvicorn.Server):
    """uvicorn over one listening socket, with TLS where there is a certificate. What `proxies` say of
    who asks and how (`X-Forwarded-For`, `-Proto`) is believed, and nobody else.
    """

    def __init__(
        self,
        application: Any,
        listening: socket.socket,
        trust: Trust = PLAIN,
        proxies: Sequence[str] = (),
    ) -> None:
        super().__init__(_config(application, trust, proxies))
        self._listening = listening
        self._stopping = asyncio.Event()
        self.up = asyncio.Event()

    async def run_until_stopped(self) -> None:
        """Serve until `stop` was called and what was in flight is answered."""
        await self.serve(sockets=[self._listening])

    def stop(self) -> None:
        """Take no more connections, and end."""
        self.should_exit = True
        self._stopping.set()

    async def main_loop(self) -> None:
        """Wait, instead of looking ten times a second whether to stop."""
        await self.on_tick(0)
        self.up.set()
        await self._stopping.wait()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the process."""
        yield


def listen(address: str) -> socket.socket:
    """A listening socket at `host:port`. Raises `OSError`."""
    host, _, port = address.rpartition(":")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.create_server(
        (host.strip("[]"), int(port)), family=family, backlog=CONNECTIONS_WAITING_MAX
    )
    # each connection takes it over: an answer's head and body are two writes, and would wait 40 ms
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def raise_file_limit() -> None:
    """Every connection takes a descriptor, and the usual soft limit of 1,024 is soon reached."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def write_port(path: Path, listening: socket.socket) -> None:
    """Say which port was bound."""
    written = path.with_suffix(".new")
    written.write_text(f"{listening.getsockname()[1]}\n")
    written.replace(path)


def trusted_proxies(text: str) -> tuple[str, ...]:
    """The addresses and networks in a comma-separated list. Raises `ValueError` for what is none."""
    found = [word.strip() for word in text.split(",") if word.strip()]
    return tuple(str(ipaddress.ip_network(word)) for word in found)


def _config(application: Any, trust: Trust, proxies: Sequence[str]) -> uvicorn.Config:
    return uvicorn.Config(
        application,
        http=Incoming,
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=list(proxies),
        ws="websockets-sansio",
        ws_max_size=MESSAGE_BYTES_MAX,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=STOP_S,
        ssl_certfile=trust.certificate or None,
        ssl_keyfile=trust.private_key or None,
    )

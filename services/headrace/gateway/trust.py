"""What a machine that joins is told: where the bus is, whose grants count, which certificate to pin.

Rule: the bus is told without a host when it listens where the gateway does: the machine knows a
name of that host by which it reached us.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from headrace.trust import fingerprint
from headrace.trust.certificates import ends_us

LOOPBACK = ("127.0.0.1", "::1", "localhost")


class Trust(msgspec.Struct, frozen=True, kw_only=True):
    """`pin` is the fingerprint of our certificate, empty unless we made it ourselves."""

    bus_url: str = ""
    grant_key: bytes = b""
    pin: str = ""
    certificate: str = ""
    private_key: str = ""
    certificate_ends_us: int = 0
    metrics: str = ""  # where the fleet's numbers are, for people

    def bus_url_at(self, host: str) -> str:
        """Where the bus is for somebody who reached the gateway at this host. Without TLS it does not
        leave this machine.
        """
        parts = urlsplit(self.bus_url)
        if parts.hostname or not self.bus_url:
            return self.bus_url
        host = host if parts.scheme == "tls" else LOOPBACK[0]
        return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}:{parts.port}"

    @classmethod
    def read(cls, env: Mapping[str, str], *, nats_url: str, grant_key: bytes) -> Trust:
        """From `HEADRACE_TLS_CERTIFICATE`, `_KEY`, `_PINNED`, and `HEADRACE_PUBLIC_NATS_URL`.

        Raises `OSError`, `ValueError`.
        """
        certificate = env.get("HEADRACE_TLS_CERTIFICATE", "")
        pem = Path(certificate).read_text(encoding="ascii") if certificate else ""
        pinned = bool(certificate and env.get("HEADRACE_TLS_PINNED"))
        return cls(
            bus_url=env.get("HEADRACE_PUBLIC_NATS_URL", "") or _without_loopback(nats_url),
            grant_key=grant_key,
            pin=fingerprint(pem) if pinned else "",
            certificate=certificate,
            private_key=env.get("HEADRACE_TLS_KEY", ""),
            certificate_ends_us=ends_us(pem) if pem else 0,
            metrics=env.get("HEADRACE_METRICS_URL", ""),
        )


PLAIN = Trust()  # without TLS


def _without_loopback(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://:{parts.port}" if parts.hostname in LOOPBACK else url

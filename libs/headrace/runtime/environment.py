"""What a service process is told by whoever starts it: addresses, credentials, folders."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import msgspec

from headrace.runtime.health import TOKEN_FILE, MetricsToken


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """The process's surroundings, from `HEADRACE_*` variables."""

    pg_dsn: str
    nats_url: str
    nats_creds: str
    nats_certificate: str
    run_dir: Path
    keys_dir: Path
    http: str
    instance: str

    def key(self, name: str) -> bytes:
        """The bytes of one key file. Raises `FileNotFoundError` naming it."""
        return (self.keys_dir / name).read_bytes()

    def metrics_token(self) -> MetricsToken:
        """What the metrics are shown for; for nothing where the process was given none."""
        path = self.keys_dir / TOKEN_FILE
        return MetricsToken(path.read_bytes() if path.exists() else b"")

    @classmethod
    def read(cls, service: str) -> Environment:
        """From this process's environment. Raises `SystemExit` naming what is missing."""
        missing = [
            name for name in ("HEADRACE_PG_DSN", "HEADRACE_NATS_URL") if name not in os.environ
        ]
        if missing:
            raise SystemExit(f"headrace {service}: {', '.join(missing)} must be set")
        run_dir = os.environ.get("HEADRACE_RUN_DIR", ".")
        return cls(
            pg_dsn=os.environ["HEADRACE_PG_DSN"],
            nats_url=os.environ["HEADRACE_NATS_URL"],
            nats_creds=os.environ.get("HEADRACE_NATS_CREDS", ""),
            nats_certificate=os.environ.get("HEADRACE_NATS_CERTIFICATE", ""),
            run_dir=Path(run_dir),
            keys_dir=Path(os.environ.get("HEADRACE_KEYS_DIR", run_dir)),
            http=os.environ.get("HEADRACE_HTTP", "127.0.0.1:0"),
            instance=os.environ.get("HEADRACE_INSTANCE", f"{socket.gethostname()}-{os.getpid()}"),
        )

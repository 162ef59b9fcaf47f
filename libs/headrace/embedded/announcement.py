"""What `headrace up` says once the platform is ready."""

from __future__ import annotations

from pathlib import Path

from headrace.embedded import contexts, secrets
from headrace.embedded.layout import Layout
from headrace.embedded.settings import Settings
from headrace.embedded.status import bus_url, isolation_of, metrics_of
from headrace.events.accounts import UNISOLATED

UNLIMITED = "memory and CPU are not limited here (on machines that join they are)"


def announce(layout: Layout, settings: Settings, url: str, join_line: str = "") -> str:
    """Write the platform's context, and tell where everything is. Raises `EmbeddedError`. `join_line`
    is what to type on a machine that is to join.

    The admin's token is shown once and never again.
    """
    token = secrets.token(layout)
    certificate, _ = secrets.certificate(layout, settings)
    config = contexts.config_file()
    context, in_force = contexts.write_local(url, token, certificate, layout.data_dir)
    shown = layout.secrets / "admin.token.shown"
    is_first = not shown.exists()
    shown.touch(mode=0o600)
    kept = f"kept in {_short(config)} (0600)"
    where = "" if context == in_force else f" --data-dir {_short(layout.data_dir)}"
    stop = f"headrace down{where}"
    return "\n".join(
        [
            f"Headrace is up    {url}     data {_short(layout.data_dir)}     stop: {stop}",
            f"  log {_log_server(layout, settings)} · bus {_bus(layout, settings)} · {settings.fleet()}",
            "  you are admin, project default.   Admin token: "
            + (f"{token}  shown once, {kept}" if is_first else kept),
            f"  numbers for Prometheus {metrics_of(layout)}    token {_short(layout.secrets / secrets.METRICS_TOKEN)}",
            *_nodes(layout, settings),
            *([_other(context, in_force)] if context != in_force else []),
            *([f"  a machine joins within 1 h by: {join_line}"] if join_line else []),
        ]
    )


def _nodes(layout: Layout, settings: Settings) -> list[str]:
    """How its nodes isolate jobs, what they limit, and what to do where they do not isolate them; or why
    there are none.
    """
    if not settings.nodes:
        chosen = "as asked" if settings.are_nodes_chosen else "as other machines reach the platform"
        return [f"  no jobs run on this machine, {chosen} (--nodes N plays some): let others join"]
    isolation = isolation_of(layout, settings)
    fix = ""
    if isolation.startswith(UNISOLATED):
        fix = "  (start it as root or allow user namespaces; --trust-everybody runs all the same)"
    return [f"  isolation of jobs: {isolation}{fix}; {UNLIMITED}"]


def _other(context: str, in_force: str) -> str:
    return (
        f"  commands here ask context {in_force}; headrace context use {context} has them ask this"
    )


def _log_server(layout: Layout, settings: Settings) -> str:
    if settings.external_postgres:
        return "Postgres (yours)"
    version = (layout.postgres() / "data" / "PG_VERSION").read_text(encoding="ascii").strip()
    return f"Postgres {version} (embedded)"


def _bus(layout: Layout, settings: Settings) -> str:
    return (
        "NATS (yours)" if settings.external_nats else f"NATS (embedded) {bus_url(layout, settings)}"
    )


def _short(path: Path) -> str:
    """With `~` for the home folder, as people write it."""
    home = str(Path.home())
    return f"~{str(path)[len(home) :]}" if f"{path}".startswith(f"{home}/") else str(path)

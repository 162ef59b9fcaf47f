"""Which gateway, with which token, in which project.

Rule: an option given wins over the environment, the environment over the context in force: the one
that `HEADRACE_CONTEXT` names, else the current one of `~/.config/headrace/config.toml`. A token that
is kept goes to its own platform alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from headrace.client.errors import ClientError

DEFAULT_PROJECT = "default"
CONTEXT = "HEADRACE_CONTEXT"  # instead of the file's current one


class Context(NamedTuple):
    """Where requests go, and the project of job files that name none. `certificate` is a file with
    the one certificate that a gateway at an https address must have; else the system decides. A service
    account that acts for people asks in the name of that `person`.
    """

    url: str
    token: str
    project: str = DEFAULT_PROJECT
    certificate: str = ""
    person: str = ""


def config_file() -> Path:
    """`$XDG_CONFIG_HOME/headrace/config.toml`, usually `~/.config/headrace/config.toml`."""
    home = os.environ.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / "headrace" / "config.toml"


def context(*, url: str = "", token: str = "", project: str = "") -> Context:
    """The context in force. Raises `ClientError` naming what is missing or wrong."""
    url = url or os.environ.get("HEADRACE_URL", "")
    token = token or os.environ.get("HEADRACE_TOKEN", "")
    project = project or os.environ.get("HEADRACE_PROJECT", "")
    kept = {} if url and token and project else _kept(url)
    certificate = os.environ.get("HEADRACE_CERTIFICATE", "") or kept.get("certificate", "")
    url = url or kept.get("url", "")
    if not url:
        raise ClientError(
            f"no platform is configured: set HEADRACE_URL, or start one with headrace up "
            f"(looked into {config_file()})"
        )
    return Context(
        url,
        token or kept.get("token", ""),
        project or kept.get("project", DEFAULT_PROJECT),
        certificate,
    )


def contexts() -> tuple[str, dict[str, dict[str, str]]]:
    """The name of the context in force, and every context of the file with its fields.

    Raises `ClientError` for a file that is none.
    """
    path = config_file()
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        text = ""
    except (OSError, UnicodeDecodeError) as error:
        raise ClientError(f"cannot read {path}: {error}") from error
    import tomllib

    try:
        written = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ClientError(f"{path} is not TOML: {error}") from error
    tables = written.get("contexts", {})
    if not isinstance(tables, dict) or not all(isinstance(t, dict) for t in tables.values()):
        raise ClientError(f"{path}: contexts must be tables, as in [contexts.local]")
    current = os.environ.get(CONTEXT) or str(written.get("current", "local"))
    return current, {
        name: {field: str(value) for field, value in table.items()}
        for name, table in tables.items()
    }


def kept_in(url: str) -> str:
    """The folder on this machine of the context in force, or with a `url` of that platform's; empty when
    it has none. Raises `ClientError`.
    """
    return _kept(url).get("data_dir", "")


def unknown_context(name: str, known: Iterable[str]) -> ClientError:
    """What to raise for a name that no context has."""
    there = ", ".join(known) or "none"
    return ClientError(f"no context is called {name}; there are: {there} ({config_file()})")


def _kept(url: str) -> dict[str, str]:
    """The context in force, or with a `url` one of that platform, so that no platform is sent the
    token of another; empty when there is none. Raises `ClientError`.
    """
    current, known = contexts()
    if current not in known and os.environ.get(CONTEXT):
        raise unknown_context(current, known)
    in_force = known.get(current, {})
    if not url:
        return in_force
    of_it = (each for each in (in_force, *known.values()) if _is_same(each.get("url", ""), url))
    return next(of_it, {})


def _is_same(one: str, other: str) -> bool:
    return one.rstrip("/") == other.rstrip("/")

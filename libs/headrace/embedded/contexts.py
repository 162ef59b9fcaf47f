"""The context `local` in the command line's configuration, so that no login is needed.

Rule: the file is the person's own. Our section is replaced; every other line stays as it is.
"""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

import msgspec

from headrace.embedded import EmbeddedError
from headrace.embedded.files import write_file

NAME = "local"
PROJECT = "default"

_SECTION = re.compile(r"(?ms)^\[contexts\.local\][^\n]*\n.*?(?=^\[|\Z)")


def config_file() -> Path:
    """`$XDG_CONFIG_HOME/headrace/config.toml`, usually `~/.config/headrace/config.toml`."""
    home = os.environ.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / "headrace" / "config.toml"


def write_local(url: str, token: str, certificate: str = "") -> Path:
    """Make `local` the platform at `url`; the current context too when there is none.

    Raises `EmbeddedError` when the file cannot be read as TOML or not be written.
    """
    path = config_file()
    try:
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        known = tomllib.loads(text)
        fields = {"url": url, "token": token, "project": PROJECT}
        if certificate:
            fields["certificate"] = certificate
        lines = [f"{name} = {_quoted(value)}\n" for name, value in fields.items()]
        section = f"[contexts.{NAME}]\n{''.join(lines)}"
        rest = _SECTION.sub("", text).strip("\n")
        rest = f"{rest}\n\n" if rest else ""
        if "current" not in known:
            rest = f"current = {_quoted(NAME)}\n{rest or chr(10)}"
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_file(path, f"{rest}{section}".encode())
    except tomllib.TOMLDecodeError as error:
        raise EmbeddedError(f"{path} is not TOML ({error}); it was left as it is") from error
    except OSError as error:
        raise EmbeddedError(f"cannot write {path}: {error.strerror}") from error
    return path


def _quoted(value: str) -> str:
    return msgspec.json.encode(value).decode()

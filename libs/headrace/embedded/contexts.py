"""Contexts in the command line's configuration: `local`, so that no login is needed, and others.

Rule: the file is the person's own. Our section is replaced; every other line stays as it is. The first
platform of this machine is `local`; another one beside it gets a name of its own, and takes nothing
from it.
"""

from __future__ import annotations

import itertools
import os
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from headrace.embedded import EmbeddedError
from headrace.embedded.files import write_file

NAME = "local"
PROJECT = "default"

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def config_file() -> Path:
    """`$XDG_CONFIG_HOME/headrace/config.toml`, usually `~/.config/headrace/config.toml`."""
    home = os.environ.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / "headrace" / "config.toml"


def write_local(url: str, token: str, certificate: str, data_dir: Path) -> tuple[str, str]:
    """Make the platform at `url` the context of its `data_dir`, the current one too when there is none.
    Its name, and that of the context in force.

    Raises `EmbeddedError` when the file cannot be read as TOML or not be written.
    """
    names = itertools.chain((NAME,), (f"{NAME}-{number}" for number in itertools.count(2)))
    known = _read().get("contexts", {})
    ours = (name for name, fields in known.items() if fields.get("data_dir") == str(data_dir))
    name = next(ours, "") or next(n for n in names if _is_free(known.get(n, {}), data_dir))
    write_context(name, url, token, certificate, data_dir=str(data_dir))
    return name, str(_read().get("current", NAME))


def write_context(
    name: str,
    url: str,
    token: str,
    certificate: str = "",
    *,
    project: str = PROJECT,
    data_dir: str = "",
    is_current: bool = False,
) -> Path:
    """Make `name` the platform at `url`, and with `is_current` (or when there is none) the context
    in force. `data_dir` is where a platform of this machine is kept. Raises `EmbeddedError` as
    `write_local` does.
    """
    fields = {"url": url, "token": token, "project": project}
    if certificate:
        fields["certificate"] = certificate
    if data_dir:
        fields["data_dir"] = data_dir
    lines = [f"{field} = {_quoted(value)}\n" for field, value in fields.items()]
    section = f"[contexts.{_key(name)}]\n{''.join(lines)}"

    def written(text: str) -> str:
        rest = _without(text, name).strip("\n")
        rest = f"{rest}\n\n" if rest else ""
        if is_current or "current" not in tomllib.loads(text):
            rest = _with_current(rest, name)
        return f"{rest}{section}"

    return _rewrite(written)


def use_context(name: str) -> Path:
    """Make it the context in force. Raises `EmbeddedError` as `write_local` does."""
    return _rewrite(lambda text: _with_current(text, name))


def delete_context(name: str) -> Path:
    """Forget it, and its token. Raises `EmbeddedError` as `write_local` does."""
    return _rewrite(lambda text: _without(text, name))


def _is_free(fields: dict[str, Any], data_dir: Path) -> bool:
    """Whether a context may be that of this folder: it is no other's in which there is a platform."""
    there = str(fields.get("data_dir", data_dir))
    return there == str(data_dir) or not Path(there).exists()


def _read() -> dict[str, Any]:
    path = config_file()
    try:
        return tomllib.loads(path.read_text(encoding="utf-8") if path.exists() else "")
    except tomllib.TOMLDecodeError as error:
        raise EmbeddedError(f"{path} is not TOML ({error}); it was left as it is") from error
    except OSError as error:
        raise EmbeddedError(f"cannot read {path}: {error.strerror}") from error


def _rewrite(change: Callable[[str], str]) -> Path:
    _read()
    path = config_file()
    try:
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_file(path, change(text).encode(), durable=True)
    except OSError as error:
        raise EmbeddedError(f"cannot write {path}: {error.strerror}") from error
    return path


def _without(text: str, name: str) -> str:
    """The text without the section of this context."""
    head = rf"(?ms)^\[contexts\.{re.escape(_key(name))}\][^\n]*\n.*?(?=^\[|\Z)"
    return re.sub(head, "", text)


def _with_current(text: str, name: str) -> str:
    rest = re.sub(r"(?m)\Acurrent *=[^\n]*\n*", "", text)
    return f"current = {_quoted(name)}\n{rest or chr(10)}"


def _key(name: str) -> str:
    """The name as a key of TOML."""
    return name if _BARE.fullmatch(name) else _quoted(name)


def _quoted(value: str) -> str:
    return msgspec.json.encode(value).decode()

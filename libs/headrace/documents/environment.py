"""`env` and `secrets`: what a worker finds in its environment beside what Headrace says.

Rule: what looks like a credential does not go into `env`, because `env` is recorded in the log.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from headrace.documents.refusing import refuse

ENV_MAX = 256
ENV_BYTES_MAX = 65_536  # names and values together
SECRETS_MAX = 64
RESERVED = "HEADRACE_"

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
NAME_RULE = "has 1 to 128 letters, digits and _, no digit first"

# TOKENIZERS_PARALLELISM and its like hold no token.
_CREDENTIAL = re.compile(
    r"TOKEN(?!IZ)|SECRET|PASSWORD|PASSWD|API_?KEY|ACCESS_KEY|PRIVATE_KEY|CREDENTIAL"
)

Value = str | int | float | bool | None


def environment(env: Mapping[str, Value], *, allow_plain_secret: bool) -> dict[str, str]:
    """`env` as text, in its order. Raises `DocumentError`."""
    if len(env) > ENV_MAX:
        refuse("env", f"has at most {ENV_MAX} names")
    values = {name: _value(name, env[name]) for name in env}
    if sum(len(n) + len(v.encode(errors="replace")) for n, v in values.items()) > ENV_BYTES_MAX:
        instead = "put large data into a file"
        refuse("env", f"has at most {ENV_BYTES_MAX} bytes of names and values", instead=instead)
    for name in values:
        if not allow_plain_secret and looks_secret(name):
            rule = "looks like a credential, and env is recorded in the log"
            refuse(f"env.{name}", rule, instead="put it under secrets: (or --allow-plain-secret)")
    return values


def looks_secret(name: str) -> bool:
    """Whether a variable of this name probably holds a credential."""
    return _CREDENTIAL.search(name.upper()) is not None


def secret_names(names: Iterable[str], env: Mapping[str, Value]) -> tuple[str, ...]:
    """The secrets a job names. Raises `DocumentError`."""
    found: dict[str, None] = {}
    for name in names:
        if not NAME.fullmatch(name):
            refuse("secrets", NAME_RULE, value=name)
        if name in found:
            refuse("secrets", "is named twice", value=name)
        if name in env:
            refuse("secrets", "is in env: too", value=name, instead="leave it out of env:")
        if name.startswith(RESERVED):
            refuse("secrets", f"names with {RESERVED} are Headrace's own", value=name)
        found[name] = None
    if len(found) > SECRETS_MAX:
        refuse("secrets", f"has at most {SECRETS_MAX} names")
    return tuple(found)


def _value(name: str, value: Value) -> str:
    if not NAME.fullmatch(name):
        refuse("env", NAME_RULE, value=name)
    if name.startswith(RESERVED):
        refuse(f"env.{name}", f"names with {RESERVED} are Headrace's own")
    if value is None:
        rule = "has no value: only the command line can copy it from your shell"
        refuse(f"env.{name}", rule, instead=f"{name}: some value")
    if isinstance(value, bool):
        return "true" if value else "false"
    text = repr(value) if isinstance(value, float) else str(value)
    if "\0" in text:
        refuse(f"env.{name}", "no environment can hold a NUL character")
    return text

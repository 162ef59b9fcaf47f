"""Writes what others need to read our events: JSON Schemas and examples.

`python -m headrace.events.export proto-schemas` writes them, `--check` tells what is stale. Rule:
schemas are generated and follow the code; an example is written once and never again, so that it
shows for ever how an event looked when it was new.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec

from headrace.events import EVENTS, decode, encode, tag_of
from headrace.events.examples import example_of

SCHEMAS, EXAMPLES = "schemas", "examples"


def main(arguments: list[str]) -> int:
    """Write into the folder, or with `--check` print what is stale and return 1 if anything is."""
    check, places = "--check" in arguments, [a for a in arguments if a != "--check"]
    if len(places) != 1:
        print("usage: python -m headrace.events.export FOLDER [--check]", file=sys.stderr)
        return 2
    folder = Path(places[0])
    if not check:
        write(folder)
        return 0
    found = stale(folder)
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


def write(folder: Path) -> None:
    """Bring the folder up to date. Examples that exist are left as they are."""
    wanted = generated()
    for path in folder.glob(f"{SCHEMAS}/*.json"):
        if f"{SCHEMAS}/{path.name}" not in wanted:
            path.unlink()
    for name, data in wanted.items():
        _write(folder / name, data)
    for event in EVENTS:
        path = folder / EXAMPLES / f"{tag_of(event)}.json"
        if not path.exists():
            _write(path, encode(example_of(event)) + b"\n")


def stale(folder: Path) -> list[str]:
    """What in the folder is not as the code would write it, one line each."""
    found = []
    wanted = generated()
    for name, data in wanted.items():
        path = folder / name
        if not path.exists():
            found.append(f"{name} is missing: run make schemas")
        elif path.read_bytes() != data:
            found.append(f"{name} is stale: run make schemas")
    kept = sorted(f"{SCHEMAS}/{path.name}" for path in folder.glob(f"{SCHEMAS}/*.json"))
    found += [f"{name} describes an event that is no more" for name in kept if name not in wanted]
    examples = [f"{EXAMPLES}/{tag_of(event)}.json" for event in EVENTS]
    found += [f"{e} is missing: run make schemas" for e in examples if not (folder / e).exists()]
    return found + undecodable(folder)


def undecodable(folder: Path) -> list[str]:
    """Examples that today's code cannot read, or would write in another way."""
    found = []
    for path in sorted(folder.glob(f"{EXAMPLES}/*.json")):
        data = path.read_bytes().rstrip(b"\n")
        try:
            again = encode(decode(path.stem, data))
        except (KeyError, msgspec.MsgspecError) as error:
            found.append(f"{EXAMPLES}/{path.name} cannot be read any more: {error}")
            continue
        if again != data:
            found.append(f"{EXAMPLES}/{path.name} is written in another way now")
    return found


def generated() -> dict[str, bytes]:
    """Every generated file by its place in the folder."""
    return {f"{SCHEMAS}/{tag_of(e)}.json": _pretty(_schema(e)) for e in EVENTS}


def _schema(event: type[Any]) -> dict[str, Any]:
    schema = msgspec.json.schema(event)
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"{tag_of(event)}.json",
        "x-kind": event.kind,
        "x-owner": event.owner,
        "x-stream": event.stream,
        "x-public": list(event.public),
    }
    return head | schema


def _pretty(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

#!/usr/bin/env python3
"""Prepare a deployment: keys, logins and passwords in a folder, and the log's schema.

`python prepare.py FOLDER --pg-dsn OWNER_DSN --nats-url nats://bus:4222 --node n1 --node n2`

FOLDER then has `secrets/` (stays with the administrator) and one folder for each process, to be
copied to where it runs as `/etc/headrace/<process>/`: its `env`, its bus login, the keys it needs
and no others. Run it again to add a node or to bring the schema up to date: what exists is kept. A
log that was begun with other keys, or is shorter than FOLDER has seen it, is refused before anything
is changed: `--restored` goes on from an older copy. A second database of one server gets roles of its
own; roles that are another log's are refused unless `--rotate` says that they are to change hands.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
from pathlib import Path

import msgspec

from headrace.embedded import secrets
from headrace.embedded.accounts import private_folder
from headrace.embedded.durability import sync
from headrace.embedded.files import read_json, write_file
from headrace.embedded.layout import Layout
from headrace.embedded.services import SERVICES, role_dsn
from headrace.events.platform import RESTORED
from headrace.store.interface import StoreError
from headrace.store.lineage import Known, Opening, Refused, open_log

ETC = Path("/etc/headrace")
FILES = Path("/var/lib/headrace/files")
PORTS = {
    "gateway": 7400, "admission": 7411, "quota": 7412, "placement": 7413, "metrics": 7414,
    "node": 7415,
}  # fmt: skip


def main() -> None:
    """Do what the command line says. Exits 1 with one line when the log cannot be prepared."""
    options = _options()
    layout = Layout(options.folder.absolute())
    for folder in (layout.data_dir, layout.secrets):
        private_folder(folder)
    _check_keys(layout)
    secrets.ensure(layout, SERVICES, options.node)
    known = _open_log(layout, options)
    options.role_prefix = known.prefix
    for name in SERVICES:
        _write(layout, name, name, _service_env(layout, options, name), options)
    for node in options.node:
        _write(layout, "node", node, _node_env(options, node), options)
    _write_trust(layout, options)
    _write_scraper(layout, options)
    password = secrets.password(layout, secrets.OPERATOR)
    operator = role_dsn(options.pg_dsn, secrets.OPERATOR, password, known.prefix)
    _write_private(layout.secrets / "operator.dsn", operator, options.owner)
    sync(layout.data_dir)  # the log knows these keys already: they must not be lost
    print(f"prepared {', '.join([*SERVICES, *options.node])} in {layout.data_dir}")


def _check_keys(layout: Layout) -> None:
    """Nothing in a log can be opened without the keys that it was begun with: none are made anew."""
    master_key = layout.secrets / "master.key"
    if _seen(layout).exists() and not master_key.exists():
        raise SystemExit(
            f"prepare: refused: {master_key} is missing, which the log was begun with: put it back"
        )


def _seen(layout: Layout) -> Path:
    """Where it is kept how far this folder has seen the log."""
    return layout.data_dir / "log.json"


def _open_log(layout: Layout, options: argparse.Namespace) -> Known:
    """Open the log with the folder's keys; how far it is then is kept in the folder."""
    seen = _seen(layout)
    roles = (*SERVICES, secrets.OPERATOR)
    opening = Opening(
        passwords={f"headrace_{role}": secrets.password(layout, role) for role in roles},
        master_key=secrets.master_key_digest(layout),
        known=read_json(seen, Known) or Known(),
        how=RESTORED if options.restored else "",
        rotate=options.rotate,
    )
    try:
        known = asyncio.run(open_log(options.pg_dsn, opening))
    except Refused as error:
        line = str(error).replace("headrace up --restored", "prepare.py --restored")
        raise SystemExit(f"prepare: refused: {line}") from None
    except (StoreError, OSError) as error:
        raise SystemExit(f"prepare: the log cannot be prepared: {error}") from None
    write_file(seen, msgspec.json.encode(known), durable=True)
    return known


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Prepare a deployment of Headrace.")
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--pg-dsn", required=True, help="of a role that may create roles")
    parser.add_argument("--nats-url", required=True)
    parser.add_argument(
        "--restored",
        action="store_true",
        help="the log was restored from an older copy: go on from there, with what nodes know",
    )
    parser.add_argument(
        "--rotate",
        action="store_true",
        help="take over roles that are another log's: whoever uses them now is locked out",
    )
    parser.add_argument("--node", action="append", default=[], help="its name; may be repeated")
    parser.add_argument("--host", default="127.0.0.1", help="where /readyz and /metrics listen")
    parser.add_argument("--etc", type=Path, default=ETC, help="where the folders come to lie")
    parser.add_argument(
        "--files",
        type=Path,
        default=FILES,
        help="where gateways keep the files of projects: one folder for all of them",
    )
    parser.add_argument("--owner", type=int, help="the user id that will read them")
    return parser.parse_args()


def _service_env(layout: Layout, options: argparse.Namespace, name: str) -> dict[str, str]:
    env = {
        "HEADRACE_PG_DSN": role_dsn(
            options.pg_dsn, name, secrets.password(layout, name), options.role_prefix
        ),
        "HEADRACE_HTTP": f"{options.host}:{PORTS[name]}",
    }
    if name == "gateway":
        env["HEADRACE_METRICS_URL"] = f"http://{options.host}:{PORTS['metrics']}/metrics"
        env["HEADRACE_TOKEN_FILE"] = str(options.etc / name / "admin.token")
        env["HEADRACE_FILES_DIR"] = str(options.files)
    return env


def _node_env(options: argparse.Namespace, node: str) -> dict[str, str]:
    return {"HEADRACE_NODE": node, "HEADRACE_HTTP": f"{options.host}:{PORTS['node']}"}


def _write(
    layout: Layout, kind: str, name: str, env: dict[str, str], options: argparse.Namespace
) -> None:
    """One process's folder. Values are quoted as both systemd and shells read them."""
    folder, etc = _folder(layout.data_dir / name), options.etc / name
    env |= {
        "HEADRACE_NATS_URL": options.nats_url,
        "HEADRACE_NATS_CREDS": str(etc / "bus.creds"),
        "HEADRACE_KEYS_DIR": str(etc),
    }
    lines = (f"{variable}='{value}'\n" for variable, value in sorted(env.items()))
    files = {file: layout.secrets / file for file in secrets.KEY_FILES[kind]}
    files["bus.creds"] = secrets.creds_file(layout, name)
    if name == "gateway":
        files["admin.token"] = secrets.token_file(layout)
    for file, source in files.items():
        shutil.copy(source, folder / file)
        _own(folder / file, options.owner)
    _write_private(folder / "env", "".join(lines), options.owner)
    _own(folder, options.owner)


def _write_trust(layout: Layout, options: argparse.Namespace) -> None:
    """What the NATS server needs to know: whom it trusts."""
    folder = _folder(layout.data_dir / "nats")
    _write_private(folder / "trust.conf", secrets.bus_authentication(layout), options.owner)
    _own(folder, options.owner)


def _write_scraper(layout: Layout, options: argparse.Namespace) -> None:
    """What Prometheus shows the services for their numbers."""
    folder = _folder(layout.data_dir / "prometheus")
    shutil.copy(layout.secrets / secrets.METRICS_TOKEN, folder / secrets.METRICS_TOKEN)
    _own(folder / secrets.METRICS_TOKEN, options.owner)
    _own(folder, options.owner)


def _folder(path: Path) -> Path:
    path.mkdir(exist_ok=True)
    path.chmod(0o700)
    return path


def _write_private(path: Path, text: str, owner: int | None) -> None:
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")
    _own(path, owner)


def _own(path: Path, owner: int | None) -> None:
    if owner is not None:
        os.chown(path, owner, owner)


if __name__ == "__main__":
    main()

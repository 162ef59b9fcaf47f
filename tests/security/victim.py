"""The victim's program: a job that holds a secret wherever jobs hold things, and says where.

Rule: standard library only. It serves its secret to whoever connects, as a notebook without a password
would, and prints one JSON object that says where it listens and what it left; then it serves until it
is ended.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import selectors
import socket
import sys

ADD_KEY = {"x86_64": 248}.get(os.uname().machine, 217)
OF_THE_USER = -4  # the keyring of all processes of the account
_LIBC = ctypes.CDLL(None, use_errno=True)


def listening(family: int, kind: int, address: object) -> socket.socket:
    """A socket that is served."""
    server = socket.socket(family, kind)
    server.bind(address)  # type: ignore[arg-type]
    if kind == socket.SOCK_STREAM:
        server.listen()
    return server


def main() -> None:
    """Leave the secret everywhere, and serve it."""
    secret = os.environ["VICTIM_HOLDS"]
    key = int(secret[:7], 16)  # numbers of processes are alike in all namespaces
    for path in ("work.txt", f"/tmp/{key:x}", f"/var/tmp/{key:x}", f"/dev/shm/{key:x}"):
        with open(path, "w") as file:
            file.write(secret)
    _LIBC.shmget(key, 4096, 0o1666)
    name = f"victim-{key:x}"
    _LIBC.syscall(ADD_KEY, b"user", name.encode(), secret.encode(), len(secret), OF_THE_USER)
    servers = [
        listening(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
        listening(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
        listening(socket.AF_UNIX, socket.SOCK_STREAM, f"\0{name}"),
        listening(socket.AF_UNIX, socket.SOCK_STREAM, f"/tmp/{name}"),
    ]
    with contextlib.suppress(OSError):
        servers.append(listening(socket.AF_INET6, socket.SOCK_STREAM, ("::1", 0)))
    if at := os.environ.get("HEADRACE_APP_SOCKET"):
        os.chdir(os.path.dirname(at))  # an address is short
        servers = [listening(socket.AF_UNIX, socket.SOCK_STREAM, os.path.basename(at))]
    told = {
        "app_socket": at or "",
        "app_port": int(os.environ.get("HEADRACE_APP_PORT", "0")),
        "tcp_ports": [
            s.getsockname()[1]
            for s in servers
            if s.type == socket.SOCK_STREAM and s.family != socket.AF_UNIX
        ],
        "udp_ports": [s.getsockname()[1] for s in servers if s.type == socket.SOCK_DGRAM],
        "unix_sockets": [f"@{name}", f"/tmp/{name}"],
        "shm_key": key,
        "folder": os.path.dirname(os.environ["HEADRACE_OUTPUT_DIR"]),
        "environment": os.environ.get("VIRTUAL_ENV", ""),
        "uid": os.getuid(),
    }
    print(json.dumps(told), flush=True)
    sys.stdout.flush()
    serve(servers, secret.encode())


def serve(servers: list[socket.socket], secret: bytes) -> None:
    """Say the secret to everybody, for ever."""
    selector = selectors.DefaultSelector()
    for server in servers:
        selector.register(server, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            server = key.fileobj
            assert isinstance(server, socket.socket)
            with contextlib.suppress(OSError):
                if server.type == socket.SOCK_DGRAM:
                    _, sender = server.recvfrom(4096)
                    server.sendto(secret, sender)
                else:
                    client, _ = server.accept()
                    with client:
                        client.sendall(secret)


if __name__ == "__main__":
    main()

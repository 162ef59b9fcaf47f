"""A job that has something to hide: run as a worker, by whatever python3 a job finds.

Writes where it can be found to `facts.json` in its working directory, and lives until it is ended.
"""

import contextlib
import ctypes
import json
import os
import select
import socket
import sys

SECRET = os.environ["SECRET"]
SHARED_MEMORY_KEY = int(sys.argv[1])
IPC_CREAT = 0o1000


def main():
    facts = {"abstract": f"\0headrace-victim-{SHARED_MEMORY_KEY}", "key": SHARED_MEMORY_KEY}
    for folder in ("/tmp", "/var/tmp", "/dev/shm", os.getcwd()):
        with open(f"{folder}/victim-{SHARED_MEMORY_KEY}", "w") as file:
            file.write(SECRET)
    facts["file"] = f"{os.getcwd()}/victim-{SHARED_MEMORY_KEY}"
    ctypes.CDLL(None).shmget(SHARED_MEMORY_KEY, 4096, IPC_CREAT | 0o666)
    sockets = [socket.socket(socket.AF_UNIX)]
    sockets[0].bind(facts["abstract"])
    for name, family, address in (("4", socket.AF_INET, "0.0.0.0"), ("6", socket.AF_INET6, "::")):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            one = socket.socket(family, kind)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            one.bind((address, 0))
            facts[("tcp" if kind == socket.SOCK_STREAM else "udp") + name] = one.getsockname()[1]
            sockets.append(one)
    for one in sockets:
        if one.type == socket.SOCK_STREAM:
            one.listen()
    with open("facts.new", "w") as file:
        json.dump(facts, file)
    os.rename("facts.new", "facts.json")
    while True:
        for one in select.select(sockets, [], [])[0]:
            if one.type == socket.SOCK_STREAM:
                connection, _ = one.accept()
                with contextlib.suppress(OSError):
                    connection.sendall(SECRET.encode())
                connection.close()
            else:
                _, sender = one.recvfrom(100)
                one.sendto(SECRET.encode(), sender)


main()

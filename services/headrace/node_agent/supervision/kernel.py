"""What the standard library lacks of the kernel's interface, and what /proc says of processes."""

import ctypes
import os
import signal
import time
from typing import Any

_LIBC = ctypes.CDLL(None, use_errno=True)
_PRCTL = _LIBC.prctl
_FALLOCATE = _LIBC.fallocate
_FALLOCATE.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
_PR_SET_PDEATHSIG, _PR_SET_NAME, _PR_SET_CHILD_SUBREAPER = 1, 15, 36
_PR_SET_NO_NEW_PRIVS = 38
_KEEP_SIZE_AND_PUNCH_HOLE = 0x01 | 0x02


_CLONE_NEWNS, _CLONE_NEWUSER = 0x20000, 0x10000000
_MS_RDONLY, _MS_REMOUNT, _MS_BIND, _MS_REC, _MS_SLAVE = 1, 32, 4096, 16384, 1 << 19
_MS_NOSUID, _MS_NODEV = 2, 4


def syscall(number: int, *arguments: Any) -> int:
    """What the kernel answers to a call that the C library has no function for. Raises `OSError`."""
    answer = int(_LIBC.syscall(number, *arguments))
    if answer < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return answer


def die_with(parent: int) -> None:
    """Have this process killed when `parent`, which forked it, ends; exit if it has ended."""
    _PRCTL(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends (a child subreaper)."""
    _PRCTL(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def gain_no_privileges() -> None:
    """No program that this process becomes has more rights than it has now."""
    _PRCTL(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def control_by(terminal: int) -> None:
    """Make this terminal the controlling one of this process's session, which has none yet."""
    import fcntl
    import termios

    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)


def rename(name: str) -> None:
    """Set the name that `ps` shows for this process, at most 15 bytes."""
    _PRCTL(_PR_SET_NAME, name.encode(), 0, 0, 0)


def leave_mounts() -> None:
    """What this process mounts from now on nobody else sees; what is mounted on the machine later it
    sees, such as a file system that is mounted on demand. Raises `OSError`.
    """
    _checked(_LIBC.unshare(_CLONE_NEWNS))
    _checked(_LIBC.mount(b"none", b"/", None, _MS_REC | _MS_SLAVE, None))


def leave_users() -> None:
    """Be in a user namespace of its own from now on. Raises `OSError`."""
    _checked(_LIBC.unshare(_CLONE_NEWUSER))


def cover(folder: str) -> None:
    """Have an empty folder in memory at this place, through which every account may pass. Raises
    `OSError`.
    """
    how = _MS_NOSUID | _MS_NODEV
    _checked(_LIBC.mount(b"none", os.fsencode(folder), b"tmpfs", how, b"mode=0711"), folder)


def show(source: str, target: str, *, is_read_only: bool) -> None:
    """Have one folder or file at another's place, with what is mounted in it. Raises `OSError`."""
    there = os.fsencode(target)
    _checked(_LIBC.mount(os.fsencode(source), there, None, _MS_BIND | _MS_REC, None), target)
    if is_read_only:
        how = _MS_BIND | _MS_REMOUNT | _MS_RDONLY
        _checked(_LIBC.mount(b"none", there, None, how, None), target)


def _checked(result: int, name: str = "") -> None:
    if result:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), name or "a mount of its own")


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

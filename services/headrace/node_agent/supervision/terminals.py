"""Terminals of an attempt: of those that its processes see, which are the attempt's alone where it has mounts
of its own.

Rule: a terminal belongs to the account from the moment it is made, and is known by its two descriptors;
no path that a job chose is opened, and nothing is given away. Source: pty(7), devpts in the kernel's
documentation, ioctl_tty(2).
"""

import errno
import fcntl
import os
import socket
import struct

from headrace.node_agent.supervision.beneath import Folder
from headrace.node_agent.supervision.mountpoints import Account, files_of

OF_THE_MACHINE = "/dev/ptmx"
OF_AN_ATTEMPT = "dev/pts/ptmx"  # below the root that its processes have

_UNLOCK, _OTHER_END, _SIZE = 0x40045431, 0x5441, 0x5414  # TIOCSPTLCK, TIOCGPTPEER, TIOCSWINSZ
_NOT_CONTROLLING = os.O_RDWR | os.O_NOCTTY
_ENDS = struct.Struct("2i")
_ENDS_BYTES = socket.CMSG_SPACE(_ENDS.size)


def opened(root: int, account: Account) -> tuple[int, int]:
    """Both ends of a new terminal: who holds the first sees what is written to the second, which belongs
    to the account (None: ours). `root` is a descriptor of the attempt's root folder; without one (-1) it is
    the machine's terminal. Raises `OSError`, with `ENOSPC` where there are no more.
    """
    with files_of(account):
        if root < 0:
            near = os.open(OF_THE_MACHINE, _NOT_CONTROLLING)
        else:
            near = Folder(root).open(OF_AN_ATTEMPT, _NOT_CONTROLLING)
        try:
            fcntl.ioctl(near, _UNLOCK, struct.pack("i", 0))
            return near, fcntl.ioctl(near, _OTHER_END, _NOT_CONTROLLING | os.O_CLOEXEC)
        except OSError:
            os.close(near)
            raise


def resize(near: int, rows: int, columns: int) -> None:
    """Tell the programs on it how large it is. Raises `OSError`."""
    fcntl.ioctl(near, _SIZE, struct.pack("HHHH", rows & 0xFFFF, columns & 0xFFFF, 0, 0))


def awaited(folder: str) -> socket.socket:
    """Where `handed` is told a terminal's ends: a socket in this folder, in which only the node puts names.
    Raises `OSError`.
    """
    meeting = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    inside = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        meeting.setblocking(False)
        meeting.bind(_address(inside))
    except OSError:
        meeting.close()
        raise
    finally:
        os.close(inside)
    return meeting


def hand(folder: str, ends: tuple[int, int]) -> None:
    """Give both ends to who waits in this folder. Raises `OSError` where nobody does."""
    inside = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
            to.connect(_address(inside))
            to.sendmsg([b"."], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, _ENDS.pack(*ends))])
    finally:
        os.close(inside)


def handed(meeting: socket.socket) -> tuple[int, int] | None:
    """Both ends; None as long as nobody gave them. Raises `OSError`."""
    try:
        _, told, _, _ = meeting.recvmsg(1, _ENDS_BYTES, socket.MSG_CMSG_CLOEXEC)
    except BlockingIOError:
        return None
    if not told or len(told[0][2]) != _ENDS.size:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    near, far = _ENDS.unpack(told[0][2])
    return near, far


def _address(folder: int) -> str:
    """However deep the folder is: an address is short."""
    return f"/proc/self/fd/{folder}/terminal"

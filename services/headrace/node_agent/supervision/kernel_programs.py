"""Programs in the kernel that it asks about the processes of a cgroup v2 group: bpf(2).

Rule: a program answers 1 for what is allowed, and leaves that to whoever else has a say
(`BPF_F_ALLOW_MULTI`). It lives as long as its group, and holds for the groups below. Source:
`union bpf_attr` and `struct bpf_prog_info` in linux/bpf.h.
"""

import contextlib
import ctypes
import errno
import fcntl
import os
import struct
from collections.abc import Iterator

from headrace.node_agent.supervision import kernel

LOAD, STORE, COPY, COPY_32, SET, CALL, EXIT = 0x61, 0x63, 0xBF, 0xBC, 0xB7, 0x85, 0x95
AND, OR, SHIFT_RIGHT = 0x57, 0x47, 0x77
SKIP_IF, SKIP_UNLESS, SKIP_IF_SAME = 0x15, 0x55, 0x1D
ANSWER = 0  # the register that a program, and what it calls, answers in

_NUMBER = {"x86_64": 321, "aarch64": 280}.get(os.uname().machine)  # of bpf(2)
_PROG_LOAD, _PROG_ATTACH, _PROG_DETACH = 5, 8, 9
_PROG_BY_ID, _OBJECT_INFO, _PROG_QUERY = 13, 15, 16
_ALLOW_MULTI = 2
_ATTRIBUTES_BYTES = 128
_PROGRAMS_MAX = 64  # of one group and kind: what the kernel allows
_INFO = struct.Struct("<8x8s48x16s")  # of a program: its tag (a digest of what it does), its name
_LICENSE = ctypes.create_string_buffer(b"")
_LICENSE_AT = ctypes.addressof(_LICENSE)


def instruction(code: int, to: int = 0, of: int = 0, offset: int = 0, value: int = 0) -> bytes:
    """One instruction: `to` and `of` are registers, `offset` of a field or to skip."""
    return struct.pack("<BBhi", code, to | of << 4, offset, value)


def attach_program(folder: str, kind: int, where: int, program: bytes) -> None:
    """Have the kernel ask a program of this kind, where it says, about the group in this folder.
    Raises `OSError` where the kernel or this process's rights do not allow it.
    """
    with _opened(folder) as group, _loaded(kind, program) as loaded:
        _attach(group, loaded, where)


def keep_program(folder: str, kind: int, where: int, program: bytes, name: str) -> None:
    """As `attach_program`, but one program of this name (15 characters) and no more: what does the
    same already stays, and what has the name and does something else goes once this is there. Raises
    `OSError`.
    """
    with _opened(folder) as group, _loaded(kind, program, name) as loaded:
        fcntl.flock(group, fcntl.LOCK_EX)  # another agent may see to the same group
        wanted, is_there = _info(loaded), False
        for number in _attached(group, where):
            with _program(number) as other:
                tag, called = _info(other)
                if called != wanted[1]:
                    continue
                if (tag, called) == wanted and not is_there:
                    is_there = True
                    continue
                if not is_there:
                    _attach(group, loaded, where)
                    is_there = True
                _bpf(_PROG_DETACH, struct.pack("<III", group, other, where))
        if not is_there:
            _attach(group, loaded, where)


def names_attached(folder: str, where: int) -> list[str]:
    """The names of the programs that the kernel asks there. Raises `OSError`."""
    found = []
    with _opened(folder) as group:
        for number in _attached(group, where):
            with _program(number) as program:
                found.append(_info(program)[1])
    return found


@contextlib.contextmanager
def _opened(folder: str) -> Iterator[int]:
    group = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield group
    finally:
        os.close(group)


@contextlib.contextmanager
def _loaded(kind: int, program: bytes, name: str = "") -> Iterator[int]:
    code = ctypes.c_char_p(program)
    addresses = ctypes.c_void_p.from_buffer(code).value, _LICENSE_AT
    attributes = struct.pack("<IIQQ24x15sx", kind, len(program) // 8, *addresses, name.encode())
    loaded = _bpf(_PROG_LOAD, attributes)
    try:
        yield loaded
    finally:
        os.close(loaded)


@contextlib.contextmanager
def _program(number: int) -> Iterator[int]:
    program = _bpf(_PROG_BY_ID, struct.pack("<I", number))
    try:
        yield program
    finally:
        os.close(program)


def _attach(group: int, program: int, where: int) -> None:
    _bpf(_PROG_ATTACH, struct.pack("<IIII", group, program, where, _ALLOW_MULTI))


def _attached(group: int, where: int) -> list[int]:
    """The numbers of the programs there."""
    numbers = (ctypes.c_uint32 * _PROGRAMS_MAX)()
    asked = struct.pack("<IIIIQI", group, where, 0, 0, ctypes.addressof(numbers), _PROGRAMS_MAX)
    answer = ctypes.create_string_buffer(asked, _ATTRIBUTES_BYTES)
    _bpf_in(_PROG_QUERY, answer)
    (count,) = struct.unpack_from("<24xI", answer)
    return list(numbers[:count])


def _info(program: int) -> tuple[bytes, str]:
    """A program's tag and name."""
    answer = ctypes.create_string_buffer(_INFO.size)
    _bpf(_OBJECT_INFO, struct.pack("<IIQ", program, _INFO.size, ctypes.addressof(answer)))
    tag, name = _INFO.unpack(answer)
    return tag, name.rstrip(b"\0").decode(errors="replace")


def _bpf(command: int, attributes: bytes) -> int:
    return _bpf_in(command, attributes.ljust(_ATTRIBUTES_BYTES, b"\0"))


def _bpf_in(command: int, attributes: "bytes | ctypes.Array[ctypes.c_char]") -> int:
    if _NUMBER is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    return kernel.syscall(_NUMBER, command, attributes, _ATTRIBUTES_BYTES)

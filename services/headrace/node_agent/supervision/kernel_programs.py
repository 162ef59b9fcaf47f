"""Programs in the kernel that it asks about the processes of a cgroup v2 group: bpf(2).

Rule: a program answers 1 for what is allowed, and leaves that to whoever else has a say
(`BPF_F_ALLOW_MULTI`). It lives as long as its group.
"""

import ctypes
import errno
import os
import struct

from headrace.node_agent.supervision import kernel

LOAD, STORE, COPY, AND, SHIFT_RIGHT, SET, EXIT = 0x61, 0x63, 0xBF, 0x57, 0x77, 0xB7, 0x95
SKIP_IF, SKIP_UNLESS = 0x15, 0x55

_NUMBER = {"x86_64": 321, "aarch64": 280}.get(os.uname().machine)  # of bpf(2)
_PROG_LOAD, _PROG_ATTACH, _ALLOW_MULTI = 5, 8, 2
_ATTRIBUTES_BYTES = 128
_LICENSE = ctypes.create_string_buffer(b"")
_LICENSE_AT = ctypes.addressof(_LICENSE)


def instruction(code: int, to: int = 0, of: int = 0, offset: int = 0, value: int = 0) -> bytes:
    """One instruction: `to` and `of` are registers, `offset` of a field or to skip."""
    return struct.pack("<BBhi", code, to | of << 4, offset, value)


def attach_program(folder: str, kind: int, programs: "list[tuple[int, bytes]]") -> None:
    """Have the kernel ask programs of this kind, each where it says, about the group in this folder.
    Raises `OSError` where the kernel or this process's rights do not allow it.
    """
    group = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for where, program in programs:
            loaded = _loaded(kind, program)
            try:
                _bpf(_PROG_ATTACH, struct.pack("<IIII", group, loaded, where, _ALLOW_MULTI))
            finally:
                os.close(loaded)
    finally:
        os.close(group)


def _loaded(kind: int, program: bytes) -> int:
    code = ctypes.c_char_p(program)
    addresses = ctypes.c_void_p.from_buffer(code).value, _LICENSE_AT
    return _bpf(_PROG_LOAD, struct.pack("<IIQQ", kind, len(program) // 8, *addresses))


def _bpf(command: int, attributes: bytes) -> int:
    if _NUMBER is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    return kernel.syscall(
        _NUMBER, command, attributes.ljust(_ATTRIBUTES_BYTES, b"\0"), _ATTRIBUTES_BYTES
    )

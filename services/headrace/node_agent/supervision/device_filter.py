"""Keeps the processes of a cgroup v2 group from some devices: a program in the kernel, loaded through
bpf(2), which is asked whenever one of them opens or makes a device file.

Rule: what is not denied here is left to whoever else has a say (`BPF_F_ALLOW_MULTI`). The program
lives as long as its group. Source: `struct bpf_cgroup_dev_ctx` in linux/bpf.h.
"""

import ctypes
import errno
import os
import struct

from headrace.node_agent.supervision import kernel

_SYSCALL = {"x86_64": 321, "aarch64": 280}  # by machine
_PROG_LOAD, _PROG_ATTACH = 5, 8
_CGROUP_DEVICE_PROGRAM, _CGROUP_DEVICE, _ALLOW_MULTI = 15, 6, 2
_KIND = {"b": 1, "c": 2}
_ATTRIBUTES_BYTES = 128
_LOAD, _AND, _SKIP_UNLESS, _SET, _EXIT = 0x61, 0x54, 0x55, 0xB7, 0x95  # instructions
_ANSWER, _ASKED, _TYPE, _MAJOR, _MINOR = 0, 1, 2, 4, 5  # registers


def attach(folder: str, denied: list[str]) -> None:
    """Deny these devices (`c 195:3`) to every process of the group in this folder. Raises `OSError`
    where the kernel or this process's rights do not allow it.
    """
    code, license_ = ctypes.create_string_buffer(program(denied)), ctypes.create_string_buffer(b"")
    addresses = ctypes.addressof(code), ctypes.addressof(license_)
    count = (len(code) - 1) // 8
    loaded = _bpf(_PROG_LOAD, struct.pack("<IIQQ", _CGROUP_DEVICE_PROGRAM, count, *addresses))
    try:
        group = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            _bpf(_PROG_ATTACH, struct.pack("<IIII", group, loaded, _CGROUP_DEVICE, _ALLOW_MULTI))
        finally:
            os.close(group)
    finally:
        os.close(loaded)


def program(denied: list[str]) -> bytes:
    """Instructions that answer 0 for these devices and 1 for every other."""
    lines = [
        _instruction(_LOAD, _TYPE, _ASKED),
        _instruction(_AND, _TYPE, value=0xFFFF),  # the upper half says what for
        _instruction(_LOAD, _MAJOR, _ASKED, 4),
        _instruction(_LOAD, _MINOR, _ASKED, 8),
    ]
    for device in denied:
        kind, _, numbers = device.partition(" ")
        major, _, minor = numbers.partition(":")
        lines += [
            _instruction(_SKIP_UNLESS, _TYPE, offset=4, value=_KIND[kind]),
            _instruction(_SKIP_UNLESS, _MAJOR, offset=3, value=int(major)),
            _instruction(_SKIP_UNLESS, _MINOR, offset=2, value=int(minor)),
            *_end(0),
        ]
    return b"".join([*lines, *_end(1)])


def _end(answer: int) -> list[bytes]:
    return [_instruction(_SET, _ANSWER, value=answer), _instruction(_EXIT)]


def _instruction(code: int, to: int = 0, of: int = 0, offset: int = 0, value: int = 0) -> bytes:
    return struct.pack("<BBhi", code, to | of << 4, offset, value)


def _bpf(command: int, attributes: bytes) -> int:
    number = _SYSCALL.get(os.uname().machine)
    if number is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    given = ctypes.create_string_buffer(attributes, _ATTRIBUTES_BYTES)
    return kernel.syscall(number, command, given, _ATTRIBUTES_BYTES)

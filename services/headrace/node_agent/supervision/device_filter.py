"""Keeps the processes of a cgroup v2 group from some devices: a program in the kernel, loaded through
bpf(2), which is asked whenever one of them opens or makes a device file.

Rule: what is not denied here is left to whoever else has a say (`BPF_F_ALLOW_MULTI`). The program
lives as long as its group. Source: `struct bpf_cgroup_dev_ctx` in linux/bpf.h.
"""

from headrace.node_agent.supervision.kernel_programs import (
    AND,
    EXIT,
    LOAD,
    SET,
    SKIP_UNLESS,
    attach_program,
    instruction,
)

_CGROUP_DEVICE_PROGRAM, _CGROUP_DEVICE = 15, 6
_KIND = {"b": 1, "c": 2}
_ANSWER, _ASKED, _TYPE, _MAJOR, _MINOR = 0, 1, 2, 4, 5  # registers


def attach(folder: str, denied: list[str]) -> None:
    """Deny these devices (`c 195:3`) to every process of the group in this folder. Raises `OSError`
    where the kernel or this process's rights do not allow it.
    """
    attach_program(folder, _CGROUP_DEVICE_PROGRAM, _CGROUP_DEVICE, program(denied))


def program(denied: list[str]) -> bytes:
    """Instructions that answer 0 for these devices and 1 for every other."""
    lines = [
        instruction(LOAD, _TYPE, _ASKED),
        instruction(AND, _TYPE, value=0xFFFF),  # the upper half says what for
        instruction(LOAD, _MAJOR, _ASKED, 4),
        instruction(LOAD, _MINOR, _ASKED, 8),
    ]
    for device in denied:
        kind, _, numbers = device.partition(" ")
        major, _, minor = numbers.partition(":")
        lines += [
            instruction(SKIP_UNLESS, _TYPE, offset=4, value=_KIND[kind]),
            instruction(SKIP_UNLESS, _MAJOR, offset=3, value=int(major)),
            instruction(SKIP_UNLESS, _MINOR, offset=2, value=int(minor)),
            *_end(0),
        ]
    return b"".join([*lines, *_end(1)])


def _end(answer: int) -> list[bytes]:
    return [instruction(SET, _ANSWER, value=answer), instruction(EXIT)]

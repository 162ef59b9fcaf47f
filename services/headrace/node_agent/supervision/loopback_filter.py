"""Keeps what listens on a machine's own addresses from other jobs of that machine.

Rule: what a job sends over the loopback device is marked with its account's number, and what arrives
there with another job's mark is dropped; what has none (the platform, the machine's own services)
passes. So no port need be known, and TCP, UDP, IPv4 and IPv6 are one case. The mark is set behind what
a program may set itself. Source: `struct __sk_buff` in linux/bpf.h, `BPF_PROG_TYPE_CGROUP_SKB`.
"""

from headrace.node_agent.supervision.kernel_programs import (
    AND,
    COPY,
    EXIT,
    LOAD,
    SET,
    SHIFT_RIGHT,
    SKIP_IF,
    SKIP_UNLESS,
    STORE,
    attach_program,
    instruction,
)

_CGROUP_SKB_PROGRAM, _INGRESS, _EGRESS = 8, 0, 1
_MARK, _INTERFACE = 8, 40  # fields
_LOOPBACK = 1  # the number of `lo`, in every network namespace
_OF_A_JOB_BIT, _ACCOUNT = 31, 0x7FFFFFFF  # of a mark
_ANSWER, _PACKET, _FIELD, _OTHER = 0, 1, 2, 3  # registers


def attach(folder: str, account: int) -> None:
    """Let the processes of the group in this folder be reached over loopback by jobs of their own
    account (a number) only. Raises `OSError` where the kernel or this process's rights do not allow it.
    """
    programs = [(_EGRESS, marking(account)), (_INGRESS, dropping(account))]
    attach_program(folder, _CGROUP_SKB_PROGRAM, programs)


def marking(account: int) -> bytes:
    """Instructions that mark what goes out over loopback."""
    mark = account - (1 << _OF_A_JOB_BIT)  # as a signed number: the bit is set
    return _MARKING[0] + instruction(SET, _OTHER, value=mark) + _MARKING[1]


def dropping(account: int) -> bytes:
    """Instructions that answer 0 for what came over loopback from another account's job."""
    own = instruction(SKIP_IF, _FIELD, offset=2, value=account)
    return _DROPPING[0] + own + _DROPPING[1]


# what is before and behind the account: made once, not in every shim
_MARKING = (
    instruction(LOAD, _FIELD, _PACKET, _INTERFACE)
    + instruction(SKIP_UNLESS, _FIELD, offset=2, value=_LOOPBACK),
    instruction(STORE, _PACKET, _OTHER, _MARK)
    + instruction(SET, _ANSWER, value=1)
    + instruction(EXIT),
)
_DROPPING = (
    instruction(LOAD, _FIELD, _PACKET, _INTERFACE)
    + instruction(SKIP_UNLESS, _FIELD, offset=8, value=_LOOPBACK)
    + instruction(LOAD, _FIELD, _PACKET, _MARK)
    + instruction(COPY, _OTHER, _FIELD)
    + instruction(SHIFT_RIGHT, _OTHER, value=_OF_A_JOB_BIT)
    + instruction(SKIP_IF, _OTHER, offset=4, value=0)
    + instruction(AND, _FIELD, value=_ACCOUNT),
    instruction(SET, _ANSWER, value=0)
    + instruction(EXIT)
    + instruction(SET, _ANSWER, value=1)
    + instruction(EXIT),
)

"""Keeps what listens on a machine's own addresses from other jobs of that machine.

Rule: what a job sends over the loopback device is marked with the number of its socket's account, and
what arrives there at another account's job with that mark is dropped; what has none (the platform, the
machine's own services) passes. Who is a job is decided by membership in the group alone. So no port
need be known, and TCP, UDP, IPv4 and IPv6 are one case. The mark is set behind what a program may set
itself.

One pair of programs is attached to the group whose children are all attempts of a node: it lives as
long as that group, whoever comes and goes, and holds for attempts that were there before it. The
kernel runs it for full sockets only (of a connection that is being made it is the listening one; what
an ended one still says has no socket, and no mark). An account that the kernel cannot tell, or not in
31 bits, is nobody: it reaches the platform and no job, and no job reaches it. Source: `struct __sk_buff`
in linux/bpf.h, `BPF_PROG_TYPE_CGROUP_SKB`, bpf-helpers(7).
"""

from headrace.node_agent.supervision import kernel
from headrace.node_agent.supervision.kernel_programs import (
    AND,
    ANSWER,
    CALL,
    COPY,
    COPY_32,
    EXIT,
    LOAD,
    OR,
    SET,
    SHIFT_RIGHT,
    SKIP_IF,
    SKIP_IF_SAME,
    SKIP_UNLESS,
    STORE,
    instruction,
    keep_program,
)

NAMES = ("headrace_out", "headrace_in")  # as `bpftool prog` lists them
_CGROUP_SKB_PROGRAM, _INGRESS, _EGRESS = 8, 0, 1
_MARK, _INTERFACE = 8, 40  # fields
_LOOPBACK = 1  # the number of `lo`, in every network namespace
_OF_A_JOB_BIT, _ACCOUNT = 31, 0x7FFFFFFF  # of a mark
_SOCKETS_ACCOUNT = 47  # the kernel's function: bpf_get_socket_uid
_GIVEN, _OTHER, _PACKET, _FIELD = 1, 2, 6, 7  # registers; what is in the last two outlasts a call


def keep(group: str) -> None:
    """See to it that processes of groups below this one (a folder of version 2) are reached over
    loopback by jobs of their own account only. Harmless when repeated. Raises `OSError` where the
    kernel or this process's rights do not allow it.
    """
    nobody = int(kernel.read("/proc/sys/kernel/overflowuid", 16))
    # what drops is there before what marks: nothing is marked that is not looked at
    for name, where, program in (
        (NAMES[1], _INGRESS, dropping(nobody)),
        (NAMES[0], _EGRESS, marking(nobody)),
    ):
        keep_program(group, _CGROUP_SKB_PROGRAM, where, program, name)


def marking(nobody: int) -> bytes:
    """Instructions that mark what goes out over loopback; `nobody` is whom the kernel names where it
    cannot tell an account.
    """
    return b"".join(
        (
            instruction(COPY, _PACKET, _GIVEN),
            instruction(LOAD, _FIELD, _PACKET, _INTERFACE),
            instruction(SKIP_UNLESS, _FIELD, offset=9, value=_LOOPBACK),
            *_ACCOUNT_OF_THE_SOCKET,
            instruction(COPY, _OTHER, ANSWER),
            instruction(SHIFT_RIGHT, _OTHER, value=_OF_A_JOB_BIT),
            instruction(SKIP_IF, _OTHER, offset=1, value=0),
            instruction(SET, ANSWER, value=nobody),
            instruction(OR, ANSWER, value=-(1 << _OF_A_JOB_BIT)),
            instruction(STORE, _PACKET, ANSWER, _MARK),
            *_PASS,
        )
    )


def dropping(nobody: int) -> bytes:
    """Instructions that answer 0 for what came over loopback from another account's job."""
    return b"".join(
        (
            instruction(COPY, _PACKET, _GIVEN),
            instruction(LOAD, _FIELD, _PACKET, _INTERFACE),
            instruction(SKIP_UNLESS, _FIELD, offset=12, value=_LOOPBACK),
            instruction(LOAD, _FIELD, _PACKET, _MARK),
            instruction(COPY, _OTHER, _FIELD),
            instruction(SHIFT_RIGHT, _OTHER, value=_OF_A_JOB_BIT),
            instruction(SKIP_IF, _OTHER, offset=8, value=0),
            instruction(AND, _FIELD, value=_ACCOUNT),
            *_ACCOUNT_OF_THE_SOCKET,
            instruction(SKIP_IF, ANSWER, offset=1, value=nobody),
            instruction(SKIP_IF_SAME, ANSWER, _FIELD, offset=2),
            *_DROP,
            *_PASS,
        )
    )


_ACCOUNT_OF_THE_SOCKET = (  # of the sender, or of who receives
    instruction(COPY, _GIVEN, _PACKET),
    instruction(CALL, value=_SOCKETS_ACCOUNT),
    instruction(COPY_32, ANSWER, ANSWER),
)
_PASS = (instruction(SET, ANSWER, value=1), instruction(EXIT))
_DROP = (instruction(SET, ANSWER, value=0), instruction(EXIT))

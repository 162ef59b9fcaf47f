"""What NVIDIA's driver means by its XID codes, and what is to be done about each.

Rule: the action follows NVIDIA's public catalogue of XID errors by its *immediate* resolution:
resetting the GPU or the machine, checking links or cables, and codes whose advice is to contact
support drain the device; restarting the application restarts the job, unless the catalogue's first
suspect is the program itself, whose own failure then stands. What the catalogue ignores is ignored,
and so is a code that it does not have: a new driver must not empty a fleet.
"""

from __future__ import annotations

from headrace.node_agent.devices import DRAIN, IGNORE, RESTART


def action_of(code: int) -> str:
    """What is to be done: drain, restart or ignore."""
    return _ACTIONS.get(code, IGNORE)


def text_of(code: int) -> str:
    """One line for people."""
    meaning = _MEANINGS.get(code) or next(
        (text for codes, text in _FAMILIES if code in codes),
        "see NVIDIA's catalogue" if code in _ACTIONS else "not in NVIDIA's catalogue",
    )
    return f"XID {code}: {meaning}"


def known() -> tuple[int, ...]:
    """The codes of the catalogue."""
    return tuple(_ACTIONS)


_PROGRAM = (11, 13, 25, 31, 32, 43, 44, 45, 69)
_COPY_ENGINES = (39, 40, 41, 70, 71, 72, 75, 76, 77, 85, *range(126, 136))
_VIDEO_ENGINES = (60, 68, 82, 83, 84, 86, 88, 89, *range(96, 106), 139)
_LINKS = (74, 136, *range(144, 151), 155)
_INFORMATION = (
    14, 37, 38, 63, 66, 67, 92, 93, 106, 107, 121, 137, 141, 152, 153, 154, 157, 161,
)  # fmt: skip
_RESTARTS = (8, 80, 94, 159, *_COPY_ENGINES, *_VIDEO_ENGINES)

_ACTIONS = dict.fromkeys(range(1, 163), DRAIN)
_ACTIONS.update(dict.fromkeys((*_PROGRAM, *_INFORMATION), IGNORE))
_ACTIONS.update(dict.fromkeys(_RESTARTS, RESTART))

_FAMILIES = (
    (_COPY_ENGINES, "a copy engine failed"),
    (_VIDEO_ENGINES, "a video or cipher engine failed"),
    (_LINKS, "an NVLink failed"),
)
_MEANINGS = {
    8: "the GPU stopped processing",
    11: "a damaged command stream",
    13: "the program made the compute engine fault",
    25: "an illegal notification",
    31: "the program used an address that is not mapped",
    32: "a damaged command buffer",
    43: "the program's channel was reset",
    45: "the program's work was removed",
    46: "the GPU does not respond",
    48: "memory error that cannot be corrected",
    54: "auxiliary power is not connected",
    61: "the power controller halted at a breakpoint",
    62: "the power controller halted",
    63: "a memory row was set aside",
    64: "a faulty memory row could not be set aside",
    69: "the program used a class the engine does not have",
    78: "a virtual GPU did not start",
    79: "the GPU has fallen off the bus",
    80: "a command buffer failed its checksum",
    92: "many memory errors that were corrected",
    94: "memory error, contained to the program it hit",
    95: "memory error that was not contained",
    109: "a context switch timed out",
    110: "a security fault",
    119: "the system processor does not answer",
    120: "the system processor failed",
    140: "memory error that was seen too late",
    143: "the GPU did not initialise",
    151: "key rotation failed",
    154: "the advised recovery has changed",
    156: "a faulty part was set aside until the next reset",
    158: "a fatal timeout",
    160: "a memory channel was set aside",
}

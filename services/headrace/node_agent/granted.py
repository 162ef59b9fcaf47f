"""Which documents the agent takes for placement's word.

Rule: only what placement has signed, for this node.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import msgspec

from headrace.bus.agents import Desired, Signed

_LOG = logging.getLogger("headrace.node_agent")
_SIGNED = msgspec.json.Decoder(Signed)
_DESIRED = msgspec.json.Decoder(Desired)


def verified(data: bytes, node: str, is_granted: Callable[[Signed], bool]) -> Desired | None:
    """The node's desired state in this message; None for anything else, which is logged."""
    try:
        signed = _SIGNED.decode(data)
        if not is_granted(signed):
            _LOG.warning("desired state ignored reason=not signed by placement")
            return None
        desired = _DESIRED.decode(signed.document)
    except msgspec.MsgspecError as error:
        _LOG.warning("desired state not understood error=%s", error)
        return None
    if desired.node != node:
        _LOG.warning("desired state ignored reason=it is for node %s", desired.node)
        return None
    return desired

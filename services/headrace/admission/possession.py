"""Proof that who registers a public key holds its private half.

Rule: no key is registered on anybody's word. What is signed names the use and the moment, so that a
signature for one use is worth nothing for another; keys are public, and a key that a stranger could
register is one that a stranger could have revoked.
"""

from __future__ import annotations

import base64

from headrace.bus.credentials import user_key_bytes
from headrace.documents.refusing import shown
from headrace.events import Refusal
from headrace.vault import verify

CLOCK_S_MAX = 300  # by which the clock of who signs may differ from the log's
SECOND_US = 1_000_000


def possession_refusal(
    public_key: str, text: bytes, signature: str, *, at_s: int, now_us: int
) -> Refusal | None:
    """A refusal unless `signature` (base64) is the key's over `text`, made at `at_s`, about now."""
    off_s = at_s - now_us // SECOND_US
    if abs(off_s) > CLOCK_S_MAX:
        rule = f"is {abs(off_s)} s {'ahead of' if off_s > 0 else 'behind'} the platform's clock"
        return Refusal(field="clock", rule=rule, instead="set it by NTP (headrace doctor)")
    try:
        is_right = verify(
            user_key_bytes(public_key), text, base64.b64decode(signature, validate=True)
        )
    except ValueError:
        is_right = False
    if is_right:
        return None
    rule = "is not that of this key over what is asked"
    return Refusal(
        field="signature", value=shown(signature[:12]), rule=rule, instead="sign it anew"
    )

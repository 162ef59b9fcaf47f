"""Sealing, wrapping and signing: pure functions over bytes, and the keys of projects."""

from headrace.vault.sealing import (
    KEY_BYTES,
    SIGNATURE_BYTES,
    VaultError,
    new_box_keys,
    new_key,
    new_signing_keys,
    open_sealed,
    open_with,
    seal,
    seal_to,
    sign,
    unwrap,
    verify,
    wrap,
)

__all__ = [
    "KEY_BYTES",
    "SIGNATURE_BYTES",
    "VaultError",
    "new_box_keys",
    "new_key",
    "new_signing_keys",
    "open_sealed",
    "open_with",
    "seal",
    "seal_to",
    "sign",
    "unwrap",
    "verify",
    "wrap",
]

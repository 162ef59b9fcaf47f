"""Encryption and signatures, over bytes alone.

Rule: every ciphertext is bound to a `context`, bytes that say what it is and for whom; opened in
another context it does not open. Sealed bytes are `nonce ‖ ciphertext`, boxes are
`ephemeral public key ‖ ciphertext`, keys are 32 raw bytes. The algorithms are ChaCha20-Poly1305,
X25519 with HKDF-SHA256, and Ed25519.
"""

from __future__ import annotations

import os
from functools import lru_cache

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

KEY_BYTES = 32
KEYS_MAX = 64  # kept ready for use: making one of its bytes costs as much as using it
SIGNATURE_BYTES = 64
_NONCE_BYTES = 12
_WRAPPING = b"headrace project key"
_ONCE = bytes(_NONCE_BYTES)  # a box's key is used for one message, so its nonce may be constant


class VaultError(Exception):
    """These bytes do not open with this key in this context: another key or context sealed them,
    or they were changed. Which of the three cannot be known.
    """


def seal(key: bytes, plaintext: bytes, context: bytes) -> bytes:
    """`plaintext` encrypted and authenticated under `key`, for `context` only."""
    nonce = os.urandom(_NONCE_BYTES)
    return nonce + ChaCha20Poly1305(key).encrypt(nonce, plaintext, context)


def open_sealed(key: bytes, sealed: bytes, context: bytes) -> bytes:
    """What `seal` was given. Raises `VaultError`."""
    return _opened(key, sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], context)


def wrap(master_key: bytes, key: bytes) -> bytes:
    """A project's key, sealed under the master key."""
    return seal(master_key, key, _WRAPPING)


def unwrap(master_key: bytes, wrapped: bytes) -> bytes:
    """The project's key. Raises `VaultError`."""
    return open_sealed(master_key, wrapped, _WRAPPING)


def seal_to(public_key: bytes, plaintext: bytes, context: bytes) -> bytes:
    """A box that only the holder of the private X25519 key opens. Raises `VaultError` for a public
    key that is none.
    """
    ephemeral = X25519PrivateKey.generate()
    ours = ephemeral.public_key().public_bytes_raw()
    key = _shared_key(ephemeral, public_key, ours + public_key)
    return ours + ChaCha20Poly1305(key).encrypt(_ONCE, plaintext, context)


def open_with(private_key: bytes, box: bytes, context: bytes) -> bytes:
    """What `seal_to` was given. Raises `VaultError`."""
    private, ours = _box_key(private_key)
    theirs = box[:KEY_BYTES]
    key = _shared_key(private, theirs, theirs + ours)
    return _opened(key, _ONCE, box[KEY_BYTES:], context)


def sign(private_key: bytes, message: bytes) -> bytes:
    """The Ed25519 signature of `message`."""
    return _signing_key(private_key).sign(message)


def verify(public_key: bytes, message: bytes, signature: bytes) -> bool:
    """Whether the holder of the private key signed exactly this message."""
    try:
        _verifying_key(public_key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def new_key() -> bytes:
    """A fresh key for `seal` or `wrap`."""
    return os.urandom(KEY_BYTES)


def new_box_keys() -> tuple[bytes, bytes]:
    """A fresh X25519 pair for boxes: private, public."""
    private = X25519PrivateKey.generate()
    return private.private_bytes_raw(), private.public_key().public_bytes_raw()


def new_signing_keys() -> tuple[bytes, bytes]:
    """A fresh Ed25519 pair for signatures: private, public."""
    private = Ed25519PrivateKey.generate()
    return private.private_bytes_raw(), private.public_key().public_bytes_raw()


@lru_cache(KEYS_MAX)
def _box_key(private_key: bytes) -> tuple[X25519PrivateKey, bytes]:
    """The private key, and its public key's bytes."""
    private = X25519PrivateKey.from_private_bytes(private_key)
    return private, private.public_key().public_bytes_raw()


@lru_cache(KEYS_MAX)
def _signing_key(private_key: bytes) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(private_key)


@lru_cache(KEYS_MAX)
def _verifying_key(public_key: bytes) -> Ed25519PublicKey:
    return Ed25519PublicKey.from_public_bytes(public_key)


def _shared_key(private: X25519PrivateKey, public_key: bytes, both_public: bytes) -> bytes:
    """The key of one box, bound to both public keys."""
    try:
        secret = private.exchange(X25519PublicKey.from_public_bytes(public_key))
    except ValueError:
        raise VaultError("not an X25519 public key") from None
    hkdf = HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=b"headrace box" + both_public)
    return hkdf.derive(secret)


def _opened(key: bytes, nonce: bytes, ciphertext: bytes, context: bytes) -> bytes:
    try:
        return ChaCha20Poly1305(key).decrypt(nonce, ciphertext, context)
    except (InvalidTag, ValueError):
        raise VaultError("sealed with another key, for another context, or changed") from None

"""What is sealed opens for the right key and context only, and says so in one error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import vault

KEY = bytes(range(32))
OTHER = bytes(32)


def changed(data, place):
    at = place % len(data)
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@given(st.binary(max_size=500), st.binary(max_size=50))
def test_what_was_sealed_is_what_is_opened(plaintext, context):
    assert vault.open_sealed(KEY, vault.seal(KEY, plaintext, context), context) == plaintext


@given(st.binary(max_size=100), st.integers(min_value=0))
def test_no_changed_byte_goes_unnoticed(plaintext, place):
    sealed = vault.seal(KEY, plaintext, b"job-1")
    with pytest.raises(vault.VaultError):
        vault.open_sealed(KEY, changed(sealed, place), b"job-1")


@pytest.mark.parametrize(("key", "context"), [(OTHER, b"job-1"), (KEY, b"job-2"), (KEY, b"")])
def test_another_key_or_context_does_not_open(key, context):
    sealed = vault.seal(KEY, b"secret", b"job-1")
    with pytest.raises(vault.VaultError):
        vault.open_sealed(key, sealed, context)


@pytest.mark.parametrize("length", [0, 1, 12, 27])
def test_too_few_bytes_do_not_open(length):
    with pytest.raises(vault.VaultError):
        vault.open_sealed(KEY, bytes(length), b"")
    private, _ = vault.new_box_keys()
    with pytest.raises(vault.VaultError):
        vault.open_with(private, bytes(length), b"")


def test_the_same_plaintext_never_looks_the_same():
    _, public = vault.new_box_keys()
    assert len({vault.seal(KEY, b"x", b"") for _ in range(50)}) == 50
    assert len({vault.seal_to(public, b"x", b"") for _ in range(50)}) == 50


def test_a_wrapped_key_is_unwrapped_by_the_master_key_only():
    key = vault.new_key()
    wrapped = vault.wrap(KEY, key)
    assert key not in wrapped
    assert vault.unwrap(KEY, wrapped) == key
    with pytest.raises(vault.VaultError):
        vault.unwrap(OTHER, wrapped)


@given(st.binary(max_size=500), st.binary(max_size=50))
def test_a_box_is_opened_by_the_private_key(plaintext, context):
    private, public = vault.new_box_keys()
    assert vault.open_with(private, vault.seal_to(public, plaintext, context), context) == plaintext


@given(st.integers(min_value=0))
def test_no_changed_byte_of_a_box_goes_unnoticed(place):
    private, public = vault.new_box_keys()
    box = vault.seal_to(public, b"launch", b"node-1")
    with pytest.raises(vault.VaultError):
        vault.open_with(private, changed(box, place), b"node-1")


def test_a_box_opens_for_its_context_and_receiver_only():
    private, public = vault.new_box_keys()
    other, _ = vault.new_box_keys()
    box = vault.seal_to(public, b"launch", b"node-1")
    with pytest.raises(vault.VaultError):
        vault.open_with(private, box, b"node-2")
    with pytest.raises(vault.VaultError):
        vault.open_with(other, box, b"node-1")


@pytest.mark.parametrize("public", [b"", b"short", bytes(32), bytes(33)])
def test_a_box_is_not_sealed_to_what_is_no_public_key(public):
    with pytest.raises(vault.VaultError):
        vault.seal_to(public, b"x", b"")


def test_a_signature_holds_for_its_message_and_signer_only():
    private, public = vault.new_signing_keys()
    _, other = vault.new_signing_keys()
    signature = vault.sign(private, b"desired")
    assert len(signature) == vault.SIGNATURE_BYTES
    assert vault.verify(public, b"desired", signature)
    assert not vault.verify(public, b"desired!", signature)
    assert not vault.verify(other, b"desired", signature)
    assert not vault.verify(public, b"desired", b"")
    assert not vault.verify(b"no key", b"desired", signature)
    assert not vault.verify(public, b"desired", changed(signature, 5))

"""What a certificate says of itself."""

from __future__ import annotations


def ends_us(pem: str) -> int:
    """Until when the first certificate in this text is good. Raises `ValueError`."""
    from cryptography import x509  # who speaks no TLS needs none of it

    ends = x509.load_pem_x509_certificate(pem.encode("ascii")).not_valid_after_utc
    return int(ends.timestamp()) * 1_000_000

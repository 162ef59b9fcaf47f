"""How a machine knows that it speaks with its own platform: one pinned certificate, or the system's.

Rule: a connection is never left unchecked. A pinned certificate proves the platform under every name
and address it is reached by; without a pin the system's authorities and the host's name decide.
"""

from __future__ import annotations

import base64
import hashlib
import ssl

CONNECT_S_MAX = 10.0


class Untrusted(Exception):
    """Whoever answers there is not the platform that was meant."""


def context_of(pem: str = "") -> ssl.SSLContext:
    """How to check the other side: it must have exactly the certificate in `pem`; without one, a
    certificate for its name that the system trusts. Raises `ValueError`.
    """
    if not pem:
        return ssl.create_default_context()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False  # the pin says more than a name
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # the certificate itself is the anchor
    context.load_verify_locations(cadata=first_of(pem))
    return context


def pinned(host: str, port: int, pin: str) -> str:
    """The certificate (PEM) of who listens there, if its fingerprint is `pin`.

    Raises `Untrusted` when it is another, `OSError` when nobody answers.
    """
    try:
        pem = ssl.get_server_certificate((host, port), timeout=CONNECT_S_MAX)
    except (ssl.SSLError, ValueError) as error:
        raise Untrusted(f"{host}:{port} does not speak TLS") from error
    if fingerprint(pem) != pin:
        raise Untrusted(
            f"{host}:{port} has another certificate than the one pinned in the token; "
            "is this the right address? (headrace node token makes a new join line)"
        )
    return pem


def fingerprint(pem: str) -> str:
    """The SHA-256 of a certificate, in 43 characters."""
    digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(first_of(pem))).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def first_of(pem: str) -> str:
    """The first certificate of a file that may hold a chain: the server's own."""
    start, end = ssl.PEM_HEADER, ssl.PEM_FOOTER
    begins = pem.find(start)
    ends = pem.find(end, begins)
    if begins < 0 or ends < 0:
        raise ValueError("there is no certificate in it (PEM)")
    return pem[begins : ends + len(end)] + "\n"

"""Names of cipher suites: Java's, which Kafka's settings have, and OpenSSL's."""

import re
from typing import Final

TLS_1_3: Final = frozenset(
    {"TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"}
)
_TLS_1_2: Final = (
    r"TLS_(?:(ECDHE_ECDSA|ECDHE_RSA|DHE_RSA|DHE_DSS)|RSA)_WITH_"
    r"(?:AES_(128|256)_(?:(GCM|CBC)_(SHA|SHA256|SHA384)|CCM(_8)?)|(CHACHA20_POLY1305)_SHA256)"
)


def openssl_name(suite: str) -> str | None:
    """Return OpenSSL's name of a suite for TLS 1.2; None if there is none."""
    match = re.fullmatch(_TLS_1_2, suite)
    if match is None:
        return None
    exchange, bits, mode, digest, short_tag, chacha = match.groups()
    if chacha:
        cipher = "CHACHA20-POLY1305"
    elif mode == "GCM":
        cipher = f"AES{bits}-GCM-{digest}"
    elif mode == "CBC":
        cipher = f"AES{bits}-{digest}"
    else:
        cipher = f"AES{bits}-CCM{'8' if short_tag else ''}"
    return f"{exchange.replace('_', '-')}-{cipher}" if exchange else cipher

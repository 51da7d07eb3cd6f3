"""Java's stores of keys and certificates, read as PEM text.

PKCS12 is what `keytool` has written since Java 9, whatever the name of the file. Its older format,
JKS, is refused with the command that converts it.
"""

from __future__ import annotations

from typing import Final

from ottla.runtime.tls.socket import BadTlsFile

_PEM_START: Final = b"-----BEGIN "
_DER_START: Final = b"\x30"
_JKS_MAGICS: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
"""The first bytes of JKS and JCEKS stores."""
STORE_SIZE_MAX: Final = 16 << 20


def is_store(data: bytes) -> bool:
    """True if a file of unknown type is a store of Java's, as far as its beginning tells."""
    return data.startswith((_DER_START, *_JKS_MAGICS))


def store_as_pem(data: bytes, path: str, password: str) -> str:
    """Return the private key, if there is one, and the certificates, the key's own first. Raises
    `BadTlsFile` that says what is wrong with the file."""
    if data.startswith(_JKS_MAGICS):
        raise BadTlsFile(
            f"{path} is a JKS store, which only Java reads: `keytool -importkeystore -srckeystore "
            f"{path} -destkeystore {path}.p12 -deststoretype PKCS12` converts it; give {path}.p12 "
            "instead"
        )
    if data.startswith(_PEM_START):
        raise BadTlsFile(f"{path} is a PEM file: set the type of the store to PEM")
    if len(data) > STORE_SIZE_MAX:
        raise BadTlsFile(f"{path} is no PKCS12 store: it has more than {STORE_SIZE_MAX >> 20} MB")
    return _pkcs12_as_pem(data, path, password)


def _pkcs12_as_pem(data: bytes, path: str, password: str) -> str:
    # Imported here: it takes tens of milliseconds, and most nodes have PEM files or no TLS.
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        pkcs12,
    )

    try:
        store = pkcs12.load_pkcs12(data, password.encode() or None)
    except ValueError as error:
        raise BadTlsFile(
            f"{path} is no PKCS12 store, or the password of the store is wrong"
        ) from error
    parts = []
    if store.key is not None:
        key = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        parts.append(key.decode())
    own = [store.cert] if store.cert is not None else []
    parts += (
        one.certificate.public_bytes(Encoding.PEM).decode()
        for one in (*own, *store.additional_certs)
    )
    return "".join(parts)

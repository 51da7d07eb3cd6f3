"""X.509 certificates: the subject as Java prints it, and the names that a renewal must keep.

Kafka's principal of a TLS client is `X500Principal.getName()`, so ACLs that were written for Kafka
match only if every character is Java's. Python's `ssl` loses what that takes: the order of
attributes in an RDN, the type of a string, and identifiers it does not know.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

_SEQUENCE: Final = 0x30
_OBJECT_IDENTIFIER: Final = 0x06
_OCTET_STRING: Final = 0x04
_VERSION: Final = 0xA0
_EXTENSIONS: Final = 0xA3
_ALTERNATIVE_NAMES: Final = "2.5.29.17"

# RFC 2253 has keywords for these types; Java prints all others as dotted numbers and hex.
_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
# UTF8String, PrintableString, T61String, IA5String, GeneralString, BMPString. Java decodes the
# bytes of all of them as UTF-8.
_TEXT_TAGS: Final = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E})
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_BLANKS: Final = " \r"


class BadCertificate(ValueError):
    """The bytes are no X.509 certificate."""


class Certificate(NamedTuple):
    subject: bytes
    """The distinguished name in DER."""
    alternative_names: frozenset[bytes]
    """Each as tag, length and value."""


class _Element(NamedTuple):
    tag: int
    content: bytes
    whole: bytes


def parse_certificate(der: bytes) -> Certificate:
    try:
        (certificate,) = _elements(der)
        body = next(_elements(certificate.content))
        fields = [field for field in _elements(body.content) if field.tag != _VERSION]
        # serial number, signature algorithm, issuer, validity, subject
        subject = fields[4]
        extensions = next((field for field in fields if field.tag == _EXTENSIONS), None)
        names = frozenset(_alternative_names(extensions)) if extensions else frozenset()
    except (ValueError, IndexError, StopIteration) as error:
        raise BadCertificate("the bytes are no X.509 certificate") from error
    if subject.tag != _SEQUENCE:
        raise BadCertificate("the certificate has no subject")
    return Certificate(subject.whole, names)


def java_name(subject: bytes) -> str:
    """Return a distinguished name in DER as Java's `X500Principal.getName` does (RFC 2253)."""
    try:
        (name,) = _elements(subject)
        parts = [
            "+".join(map(_attribute, _elements(part.content))) for part in _elements(name.content)
        ]
    except (ValueError, IndexError) as error:
        raise BadCertificate("the subject is no distinguished name") from error
    return ",".join(reversed(parts))


def _attribute(element: _Element) -> str:
    kind, value = _elements(element.content)
    identifier = _dotted(kind.content)
    keyword = _KEYWORDS.get(identifier)
    if keyword is None or value.tag not in _TEXT_TAGS:
        return f"{keyword or identifier}=#{value.whole.hex()}"
    return f"{keyword}={_escaped(value.content.decode('utf-8', 'replace'))}"


def _escaped(text: str) -> str:
    shown = "".join(
        "\\" + character if character in _ESCAPED else "\\00" if character == "\0" else character
        for character in text
    )
    start = len(shown) - len(shown.lstrip(_BLANKS))
    end = len(shown.rstrip(_BLANKS))
    return "".join(
        character if start <= at < end else "\\" + character for at, character in enumerate(shown)
    )


def _alternative_names(extensions: _Element) -> Iterator[bytes]:
    (listed,) = _elements(extensions.content)
    for extension in _elements(listed.content):
        kind, *_, value = _elements(extension.content)
        if kind.tag == _OBJECT_IDENTIFIER and _dotted(kind.content) == _ALTERNATIVE_NAMES:
            if value.tag != _OCTET_STRING:
                raise ValueError(value.tag)
            (names,) = _elements(value.content)
            for name in _elements(names.content):
                yield name.whole


def _elements(data: bytes) -> Iterator[_Element]:
    """Yield the DER elements that `data` consists of; raises if they do not fill it exactly."""
    at = 0
    while at < len(data):
        tag, size, start = data[at], data[at + 1], at + 2
        if size >= 0x80:
            count = size & 0x7F
            if not 1 <= count <= 4:
                raise ValueError("indefinite or huge length")
            size = int.from_bytes(data[start : start + count], "big")
            start += count
        end = start + size
        if end > len(data):
            raise ValueError("cut off")
        yield _Element(tag, data[start:end], data[at:end])
        at = end


def _dotted(identifier: bytes) -> str:
    numbers = []
    number = 0
    for byte in identifier:
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, [first, numbers[0] - 40 * first, *numbers[1:]]))

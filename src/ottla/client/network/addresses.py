"""Parses addresses such as `localhost:9092,[::1]:9093`."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.client.errors import Address, BadAddress

PORT_DEFAULT = 9092


def parse_addresses(bootstrap: str | Sequence[str]) -> list[Address]:
    """Parse a bootstrap list, comma-separated or a sequence; the port may be left out."""
    text = bootstrap if isinstance(bootstrap, str) else ",".join(bootstrap)
    addresses = [parse_address(part.strip()) for part in text.split(",") if part.strip()]
    if not addresses:
        raise BadAddress(text)
    return addresses


def parse_address(text: str) -> Address:
    """Parse `HOST`, `HOST:PORT` or, as in Kafka's listeners, `PLAINTEXT://HOST:PORT`."""
    host, port = _split(text.rpartition("://")[2])
    if not host:
        raise BadAddress(text)
    if port is None:
        return host, PORT_DEFAULT
    if not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise BadAddress(text)
    return host, int(port)


def _split(text: str) -> tuple[str, str | None]:
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise BadAddress(text)
        return host, rest[1:] if rest else None
    if text.count(":") > 1:  # a bare IPv6 address has no port
        return text, None
    host, colon, port = text.partition(":")
    return host, port if colon else None

"""Reads small documents: from files, and from servers over http and https."""

from __future__ import annotations

from typing import Final
from urllib.request import Request, build_opener

SCHEMES: Final = ("file", "http", "https")


class CannotFetch(Exception):
    """The document cannot be read."""


def fetch_url(url: str, *, timeout_s: float, bytes_max: int) -> bytes:
    """Return the document at `url`; takes time, so call it in a thread. A server may not redirect
    to a file."""
    if url.partition("://")[0] not in SCHEMES:
        raise CannotFetch(f"{url}: expected one of {', '.join(SCHEMES)}")
    request = Request(url, headers={"Accept": "application/json"})
    try:
        with build_opener().open(request, timeout=timeout_s) as answer:
            document: bytes = answer.read(bytes_max + 1)
    except (OSError, ValueError) as error:
        raise CannotFetch(f"{url}: {error}") from error
    if len(document) > bytes_max:
        raise CannotFetch(f"{url} is larger than {bytes_max} bytes")
    return document

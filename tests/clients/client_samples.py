"""Records and helpers that the client tests share."""

from __future__ import annotations

import random
from typing import NamedTuple

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
MEGABYTE = 1 << 20
# librdkafka insists on a group's name. Nothing joins it; commits wait for the groups of step 2.
UNGROUPED = {"group.id": "not-joined"}
ROOMY_BYTES = 4 * MEGABYTE


class Sample(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def noise(size: int, seed: int) -> bytes:
    return random.Random(seed).randbytes(size)


# Every corner of a record: absent, empty, binary, non-ASCII, repeated and null headers.
SAMPLES = (
    Sample(b"key", b"value", (("trace", b"\x00\xff"), ("empty", b""))),
    Sample(None, b"no key"),
    Sample(b"no value", None),
    Sample(b"", b""),
    Sample(None, b"repeated header", (("h", b"1"), ("h", b"2"))),
    Sample("schlüssel".encode(), "wert €".encode(), (("ключ", b"x"),)),
    Sample(b"null header", b"v", (("none", None),)),
    Sample(b"binary", noise(2000, 1)),
    Sample(b"text", b"the quick brown fox jumps over the lazy dog " * 200),
)

# Some clients' own encoders refuse a null header value.
PLAIN_SAMPLES = tuple(one for one in SAMPLES if all(value is not None for _, value in one.headers))

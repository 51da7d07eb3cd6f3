"""Ids of 16 bytes as Kafka writes them: plain `bytes` in messages, url-safe base64 for people."""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

UUID_SIZE = 16
ZERO_UUID = bytes(UUID_SIZE)
METADATA_TOPIC_ID = (1).to_bytes(UUID_SIZE, "big")

# Directory ids in partition records that mean a state instead of a directory.
MIGRATING_DIRECTORY = ZERO_UUID
UNASSIGNED_DIRECTORY = (1).to_bytes(UUID_SIZE, "big")
LOST_DIRECTORY = (2).to_bytes(UUID_SIZE, "big")

_TO_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_FROM_URL_SAFE = bytes.maketrans(b"-_", b"+/")


def to_text(uuid: bytes) -> str:
    """Return the 22 characters by which Kafka's tools and files name this id."""
    if len(uuid) != UUID_SIZE:
        raise ValueError(f"a uuid has {UUID_SIZE} bytes, this has {len(uuid)}: {uuid!r}")
    return b2a_base64(uuid, newline=False).translate(_TO_URL_SAFE).rstrip(b"=").decode()


def from_text(text: str) -> bytes:
    """Return the id of the 22 characters of `to_text`; padding is tolerated."""
    try:
        encoded = text.encode("ascii").rstrip(b"=").translate(_FROM_URL_SAFE)
        uuid = a2b_base64(encoded + b"=" * (-len(encoded) % 4), strict_mode=True)
    except ValueError as error:
        raise ValueError(f"not a uuid in url-safe base64: {text!r}") from error
    if len(uuid) != UUID_SIZE:
        raise ValueError(f"not a uuid: {text!r} holds {len(uuid)} bytes instead of {UUID_SIZE}")
    return uuid


def random_uuid(random: Random) -> bytes:
    """Return a new version-4 id, whose text never looks like a command-line option.

    The version bits alone distinguish it from the reserved ids, which are all below 100.
    """
    while True:
        number = random.getrandbits(128)
        number = number & ~(0xF000 << 64) | (0x4000 << 64)
        number = number & ~(0xC000 << 48) | (0x8000 << 48)
        uuid = number.to_bytes(UUID_SIZE, "big")
        if not to_text(uuid).startswith("-"):
            return uuid

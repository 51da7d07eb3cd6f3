"""From bytes to messages and back: codecs for a message in one version, compiled on first use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ottla.buffers import Buffer
from ottla.protocol.decoding import DecoderWriter
from ottla.protocol.encoding import EncoderWriter
from ottla.protocol.headers import Chunk
from ottla.protocol.schema import Message

M = TypeVar("M", bound=Message)

_decoders: dict[tuple[type[Message], int], Any] = {}
_encoders: dict[tuple[type[Message], int], Any] = {}


def decoder(message_class: type[M], version: int) -> Callable[[Buffer, int], tuple[M, int]]:
    """A function from (buffer, position) to (message, position after it).

    It raises `MalformedMessage`, and nothing else, if the bytes are not such a message. What
    follows the message is the caller's to judge. Let the buffer end where the frame does: unless
    the message carries records, one that is not `bytes` is copied once, as a whole.
    """
    found = _decoders.get((message_class, version))
    if found is None:
        check_version(message_class, version)
        found = DecoderWriter(message_class, version).write().compile("decode")
        _decoders[message_class, version] = found
    return found  # type: ignore[no-any-return]


def encoder(message_class: type[M], version: int) -> Callable[[M], list[Chunk]]:
    """A function from a message to the chunks that go over the wire one after the other.

    It raises `ValueError` for a value that does not fit its field, and for one that this version
    cannot carry unless the field may be left out in silence.
    """
    found = _encoders.get((message_class, version))
    if found is None:
        check_version(message_class, version)
        found = EncoderWriter(message_class, version).write().compile("encode")
        _encoders[message_class, version] = found
    return found  # type: ignore[no-any-return]


def check_version(message_class: type[Message], version: int) -> None:
    first, last = message_class.VERSIONS
    if not first <= version <= last:
        name = message_class.__name__
        raise ValueError(f"{name} has versions {first} to {last}, not {version}")


def decode_source(message_class: type[Message], version: int) -> str:
    """The code behind `decoder`, for people."""
    return DecoderWriter(message_class, version).write().text()


def encode_source(message_class: type[Message], version: int) -> str:
    """The code behind `encoder`, for people."""
    return EncoderWriter(message_class, version).write().text()

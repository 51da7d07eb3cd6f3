"""Decodes and encodes messages: a codec for each message and version, compiled on first use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ottla.protocol.decoding import DecoderWriter
from ottla.protocol.encoding import EncoderWriter
from ottla.protocol.headers import Chunk
from ottla.protocol.schema import Message
from ottla.protocol.source import SourceWriter

M = TypeVar("M", bound=Message)

_decoders: dict[tuple[type[Message], int], Any] = {}
_encoders: dict[tuple[type[Message], int], Any] = {}
_decoders_in_steps: dict[tuple[type[Message], int], Callable[..., Any]] = {}
_encoders_in_steps: dict[tuple[type[Message], int], Callable[..., Any]] = {}


def decoder(message_class: type[M], version: int) -> Callable[..., tuple[M, int]]:
    """Return a function from (buffer, position) to (message, position after it).

    It raises only `MalformedMessage`, if the bytes are not such a message. Bytes after the message
    are left to the caller. Let the buffer end where the frame does: unless the message contains
    records, a buffer that is not `bytes` is copied once, as a whole. The decoder of a request takes
    a third argument: the most elements it may have in all (`TooManyElements`).
    """
    found = _decoders.get((message_class, version))
    if found is None:
        check_version(message_class, version)
        found = DecoderWriter(message_class, version).write().compile("decode")
        _decoders[message_class, version] = found
    return found  # type: ignore[no-any-return]


def encoder(message_class: type[M], version: int) -> Callable[..., list[Chunk]]:
    """Return a function from a message to the chunks to send, one after the other.

    It raises `ValueError` for a value that does not fit its field, and for one that this version
    cannot contain, unless the field is ignorable. The encoder of a response takes a second
    argument: the most elements it may have in all (`TooManyElements`).
    """
    found = _encoders.get((message_class, version))
    if found is None:
        check_version(message_class, version)
        found = EncoderWriter(message_class, version).write().compile("encode")
        _encoders[message_class, version] = found
    return found  # type: ignore[no-any-return]


def decoder_in_steps(message_class: type[Message], version: int) -> Callable[..., Any]:
    """Like `decoder`, for a message of many elements: a generator that yields after each of them
    and returns the same."""
    found = _decoders_in_steps.get((message_class, version))
    if found is None:
        check_version(message_class, version)
        found = _generator(DecoderWriter(message_class, version, steps=True).write(), "decode")
        _decoders_in_steps[message_class, version] = found
    return found


def encoder_in_steps(message_class: type[Message], version: int) -> Callable[..., Any]:
    """Like `encoder`, for a message of many elements: see `decoder_in_steps`."""
    found = _encoders_in_steps.get((message_class, version))
    if found is None:
        check_version(message_class, version)
        found = _generator(EncoderWriter(message_class, version, steps=True).write(), "encode")
        _encoders_in_steps[message_class, version] = found
    return found


def _generator(source: SourceWriter, name: str) -> Callable[..., Any]:
    # A message without arrays has no step after which to yield; this line makes it a generator too.
    source.lines.append("    yield")
    return source.compile(name)  # type: ignore[no-any-return]


def check_version(message_class: type[Message], version: int) -> None:
    first, last = message_class.VERSIONS
    if not first <= version <= last:
        name = message_class.__name__
        raise ValueError(f"{name} has versions {first} to {last}, not {version}")


def decode_source(message_class: type[Message], version: int) -> str:
    """Return the source code behind `decoder`, for people."""
    return DecoderWriter(message_class, version).write().text()


def encode_source(message_class: type[Message], version: int) -> str:
    """Return the source code behind `encoder`, for people."""
    return EncoderWriter(message_class, version).write().text()

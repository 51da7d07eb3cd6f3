"""The frame around a message: a size, then a header. Written by hand, since every request needs
it."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct, error
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from ottla.buffers import Buffer
from ottla.protocol.apis import APIS, ApiKey
from ottla.protocol.errors import MalformedMessage
from ottla.protocol.wire import skip_tags

if TYPE_CHECKING:
    from ottla.runtime.disk import FileSlice

Chunk: TypeAlias = "Buffer | FileSlice"

_REQUEST_START = Struct(">hhih")
_RESPONSE_START = Struct(">i")
_RESPONSE_FRAME_START = Struct(">ii")
_RESPONSE_FRAME_START_FLEXIBLE = Struct(">iix")
_read_request_start = _REQUEST_START.unpack_from
_NEVER = 0x7FFF_FFFF

# First flexible version by API key. An unknown key gets the oldest header, with which every newer
# one starts, so that the request can at least be named when it is refused.
_FLEXIBLE_FROM: dict[int, int] = {
    key: _NEVER if entry.flexible_from is None else entry.flexible_from
    for key, entry in APIS.items()
}
# The same for responses. Those to ApiVersions have the oldest header in every version: the peer may
# not know the version of its response.
_RESPONSE_FLEXIBLE_FROM = {**_FLEXIBLE_FROM, int(ApiKey.API_VERSIONS): _NEVER}


class RequestHeader(NamedTuple):
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


_new_header = tuple.__new__


def read_request_header(buffer: Buffer, position: int = 0) -> tuple[RequestHeader, int]:
    """Return the header at `position` (after the frame's size), and where the message starts."""
    try:
        api_key, version, correlation_id, size = _read_request_start(buffer, position)
        position += 10
        client_id = None
        if size >= 0:
            end = position + size
            client_id = str(buffer[position:end], "utf-8")
            position = end
        elif size != -1:
            raise MalformedMessage(f"the client id has a length of {size}")
        if version >= _FLEXIBLE_FROM.get(api_key, _NEVER):
            # No tag is defined for headers, so a tag comes from a newer peer.
            position = skip_tags(buffer, position) if buffer[position] else position + 1
    except (error, IndexError, UnicodeDecodeError) as cause:
        raise MalformedMessage(f"not a request header: {cause}") from cause
    if position > len(buffer):
        raise MalformedMessage("the frame ends inside its request header")
    header = _new_header(RequestHeader, (api_key, version, correlation_id, client_id))
    return header, position


def read_response_header(
    buffer: Buffer, position: int, api_key: int, api_version: int
) -> tuple[int, int]:
    """Return the correlation id, and where the message starts."""
    try:
        (correlation_id,) = _RESPONSE_START.unpack_from(buffer, position)
        position += 4
        if response_header_version(api_key, api_version):
            position = skip_tags(buffer, position)
    except (error, IndexError) as cause:
        raise MalformedMessage(f"not a response header: {cause}") from cause
    return correlation_id, position


def request_header_version(api_key: int, api_version: int) -> int:
    return 2 if api_version >= _FLEXIBLE_FROM.get(api_key, _NEVER) else 1


def response_header_version(api_key: int, api_version: int) -> int:
    return 1 if api_version >= _RESPONSE_FLEXIBLE_FROM.get(api_key, _NEVER) else 0


def request_header_bytes(
    api_key: int, api_version: int, correlation_id: int, client_id: str | None
) -> bytes:
    """Return the header alone, without the frame's size."""
    name = b"" if client_id is None else client_id.encode()
    size = -1 if client_id is None else len(name)
    if size > 0x7FFF:
        raise ValueError(f"a client id has at most {0x7FFF} bytes, this has {size}")
    start = _REQUEST_START.pack(api_key, api_version, correlation_id, size)
    flexible = request_header_version(api_key, api_version) == 2
    return start + name + (b"\0" if flexible else b"")


def frame_request(
    api_key: int,
    api_version: int,
    correlation_id: int,
    client_id: str | None,
    chunks: Sequence[Chunk],
) -> list[Chunk]:
    """Return a whole request frame, ready to be sent."""
    header = request_header_bytes(api_key, api_version, correlation_id, client_id)
    size = len(header) + sum(map(len, chunks))
    return _led_by(_RESPONSE_START.pack(size) + header, chunks)


def frame_response(
    api_key: int, api_version: int, correlation_id: int, chunks: Sequence[Chunk]
) -> list[Chunk]:
    """Return a whole response frame, ready to be sent."""
    size = 4 + sum(map(len, chunks))
    if api_version >= _RESPONSE_FLEXIBLE_FROM.get(api_key, _NEVER):
        start = _RESPONSE_FRAME_START_FLEXIBLE.pack(size + 1, correlation_id)
    else:
        start = _RESPONSE_FRAME_START.pack(size, correlation_id)
    return _led_by(start, chunks)


def _led_by(start: bytes, chunks: Sequence[Chunk]) -> list[Chunk]:
    """Join the start to the first chunk, since each chunk is an entry in the gather write."""
    if chunks and type(chunks[0]) is bytes:
        return [start + chunks[0], *chunks[1:]]
    return [start, *chunks]

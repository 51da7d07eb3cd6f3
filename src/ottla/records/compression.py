"""The four codecs, in the framings that Kafka's clients read and write.

What comes out of a decompressor is bounded before it is allocated: a few kilobytes can claim, or
yield, gigabytes.
"""

import struct
from collections.abc import Callable

import cramjam

from ottla.buffers import Buffer
from ottla.protocol.errors import ErrorCode
from ottla.records.codec import Codec
from ottla.records.errors import InvalidBatch

__all__ = ["DECOMPRESSED_BYTES_MAX", "Codec", "compress", "decompress"]

DECOMPRESSED_BYTES_MAX = 104_857_600
"""The default bound: what could not have been sent uncompressed in one request
(`socket.request.max.bytes`).
"""

_GUESS_BYTES_MIN = 1 << 16
_GUESS_FACTOR = 8
_GROWTH_FACTOR = 4
_OUTPUT_FULL = "failed to write whole buffer"
"""How the native library says that the output did not fit, as opposed to broken input."""

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 * 1024
_BLOCK_SIZE = struct.Struct(">I")
_SNAPPY_EXPANSION_MAX = 22
"""A copy of at most 64 bytes takes at least 3."""

_LZ4_DEFAULT_LEVEL = 9
_LZ4_FRAME_HEADER = bytes.fromhex("04224d18604082")
"""Magic, version 1 with independent blocks, blocks of up to 64 KB, and the checksum of the two."""
_LZ4_BLOCK_BYTES = 64 * 1024
_LZ4_BLOCK_SIZE = struct.Struct("<I")
_LZ4_STORED_BIT = 1 << 31
_LZ4_END_MARK = bytes(4)
_LZ4_HIGH_LEVELS = (3, 12)
_ZSTD_DEFAULT_LEVEL = 3


def compress(codec: Codec, data: Buffer, level: int | None = None) -> bytes:
    """Compress `data`; `level` has the range and meaning of Kafka's `compression.<codec>.level`,
    None the default.
    """
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            return bytes(cramjam.gzip.compress(data, None if level in (None, -1) else level))
        case Codec.SNAPPY:
            return _compress_xerial(data)
        case Codec.LZ4:
            return _compress_lz4(data, level)
        case Codec.ZSTD:
            return bytes(
                cramjam.zstd.compress(data, _ZSTD_DEFAULT_LEVEL if level is None else level)
            )


def decompress(codec: Codec, data: Buffer, max_bytes: int = DECOMPRESSED_BYTES_MAX) -> bytes:
    """Undo `compress`, for any framing Kafka's clients use; more than `max_bytes` of output raises
    MESSAGE_TOO_LARGE.
    """
    try:
        match codec:
            case Codec.NONE:
                return bytes(_within(data, max_bytes))
            case Codec.GZIP:
                return _decompress_growing(cramjam.gzip.decompress_into, data, max_bytes)
            case Codec.SNAPPY:
                return _decompress_snappy(data, max_bytes)
            case Codec.LZ4:
                return _decompress_growing(cramjam.lz4.decompress_into, data, max_bytes)
            case Codec.ZSTD:
                return _decompress_growing(cramjam.zstd.decompress_into, data, max_bytes)
    except (cramjam.DecompressionError, struct.error) as error:
        raise InvalidBatch(
            ErrorCode.INVALID_RECORD,
            f"the {codec.name.lower()} data of a batch is damaged: {error}",
        ) from None


def _compress_lz4(data: Buffer, level: int | None) -> bytes:
    """A frame as Kafka's own clients write it: blocks of 64 KB that do not refer to each other, no
    checksums but the header's. Block by block, what is worked on stays in the processor's cache.
    """
    view = memoryview(data)
    parts: list[Buffer] = [_LZ4_FRAME_HEADER]
    for start in range(0, len(view), _LZ4_BLOCK_BYTES):
        plain = view[start : start + _LZ4_BLOCK_BYTES]
        block = _compress_lz4_block(plain, level)
        if len(block) < len(plain):
            parts += (_LZ4_BLOCK_SIZE.pack(len(block)), block)
        else:
            parts += (_LZ4_BLOCK_SIZE.pack(len(plain) | _LZ4_STORED_BIT), plain)
    parts.append(_LZ4_END_MARK)
    return b"".join(parts)


def _compress_lz4_block(plain: Buffer, level: int | None) -> bytes:
    # Kafka's default level means the fast compressor, any other the thorough one.
    if level is None or level == _LZ4_DEFAULT_LEVEL:
        return bytes(cramjam.lz4.compress_block(plain, store_size=False))
    lowest, highest = _LZ4_HIGH_LEVELS
    thorough = min(max(level, lowest), highest)
    return bytes(
        cramjam.lz4.compress_block(
            plain, mode="high_compression", compression=thorough, store_size=False
        )
    )


def _compress_xerial(data: Buffer) -> bytes:
    view = memoryview(data)
    parts: list[bytes] = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (_BLOCK_SIZE.pack(len(block)), block)
    return b"".join(parts)


def _decompress_snappy(data: Buffer, max_bytes: int) -> bytes:
    view = memoryview(data)
    if bytes(view[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _decompress_snappy_block(view, max_bytes)
    # The version numbers in the header are not looked at: some producers write them in the wrong
    # byte order.
    blocks: list[bytes] = []
    position, left = len(_XERIAL_HEADER), max_bytes
    while position < len(view):
        if bytes(view[position : position + len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC:
            position += len(_XERIAL_HEADER)  # streams may be concatenated
            continue
        (size,) = _BLOCK_SIZE.unpack_from(view, position)
        position += _BLOCK_SIZE.size
        if size > len(view) - position:
            raise cramjam.DecompressionError(f"a block of {size} bytes is cut off")
        block = _decompress_snappy_block(view[position : position + size], left)
        blocks.append(block)
        left -= len(block)
        position += size
    return b"".join(blocks)


def _decompress_snappy_block(block: memoryview, max_bytes: int) -> bytes:
    # The claimed length is allocated at once, so it is believed only as far as the format can
    # expand its input.
    claimed = cramjam.snappy.decompress_raw_len(block)
    if claimed > len(block) * _SNAPPY_EXPANSION_MAX:
        raise cramjam.DecompressionError(f"{len(block)} bytes claim to hold {claimed}")
    if claimed > max_bytes:
        raise _too_large(max_bytes)
    return bytes(cramjam.snappy.decompress_raw(block))


def _decompress_growing(
    decompress_into: Callable[[Buffer, bytearray], int], data: Buffer, max_bytes: int
) -> bytes:
    """Decompress into a fixed buffer, and a larger one while it is too small, up to `max_bytes`."""
    size = min(max_bytes, max(_GUESS_BYTES_MIN, len(data) * _GUESS_FACTOR))
    while True:
        output = bytearray(size)
        try:
            written = decompress_into(data, output)
            return bytes(memoryview(output)[:written])
        except cramjam.DecompressionError as error:
            if _OUTPUT_FULL not in str(error):
                raise
        if size >= max_bytes:
            raise _too_large(max_bytes)
        del output  # before the larger one is there, not after
        size = min(max_bytes, size * _GROWTH_FACTOR)


def _within(data: Buffer, max_bytes: int) -> Buffer:
    if len(data) > max_bytes:
        raise _too_large(max_bytes)
    return data


def _too_large(max_bytes: int) -> InvalidBatch:
    return InvalidBatch(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"the records of a batch take more than {max_bytes} bytes uncompressed: "
        "send smaller batches",
    )

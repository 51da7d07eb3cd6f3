"""The four codecs, in the framings that Kafka's clients read and write.

The output of a decompressor is bounded before it is allocated: a few kilobytes can claim, or yield,
gigabytes.

Large outputs get memory of their own from the system (an anonymous mapping): pages are taken as
they are written, by code that does not hold the interpreter's lock, and are returned at once when
the output is dropped, independently of the allocator.
"""

import struct
from collections.abc import Callable, Iterator
from itertools import accumulate

import cramjam

from ottla.buffers import Buffer
from ottla.protocol.errors import ErrorCode
from ottla.records.codec import Codec
from ottla.records.errors import InvalidBatch, OpensTooLarge
from ottla.runtime.mapped_memory import mapped_memory

__all__ = ["DECOMPRESSED_BYTES_MAX", "Codec", "compress", "decompress"]

DECOMPRESSED_BYTES_MAX = 104_857_600
"""The default bound: the most that one uncompressed request can carry
(`socket.request.max.bytes`)."""

_GUESS_BYTES_MIN = 1 << 16
_GUESS_FACTOR = 8
_GUESS_BYTES_MAX = 1 << 20
"""Up to this size memory comes from the allocator."""
_OUTPUT_FULL = "failed to write whole buffer"
"""The native library's message if the output did not fit, as opposed to invalid input."""

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 * 1024
_BLOCK_SIZE = struct.Struct(">I")
_SNAPPY_EXPANSION_MAX = 22
"""The format's limit: a copy of at most 64 bytes takes at least 3."""

_LZ4_DEFAULT_LEVEL = 9
_LZ4_FRAME_HEADER = bytes.fromhex("04224d18604082")
"""Magic, version 1 with independent blocks, blocks of up to 64 KB, and the checksum of the two."""
_LZ4_BLOCK_BYTES = 64 * 1024
_LZ4_BLOCK_SIZE = struct.Struct("<I")
_LZ4_STORED_BIT = 1 << 31
_LZ4_END_MARK = bytes(4)
_LZ4_HIGH_LEVELS = (3, 12)
_ZSTD_DEFAULT_LEVEL = 3
_GZIP_DEFAULT_LEVEL = 6
_PIECE_BYTES = 1 << 20
"""How much is compressed before its size is checked."""


def compress(
    codec: Codec, data: Buffer, level: int | None = None, bytes_max: int | None = None
) -> bytes:
    """Compress `data`; `level` has the range and meaning of Kafka's `compression.<codec>.level`,
    None is the default.

    If the result would be larger than `bytes_max`, only a prefix may be returned, which is larger
    than that too: a caller that gives a bound refuses anything above it.
    """
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            level = _GZIP_DEFAULT_LEVEL if level in (None, -1) else level
            if bytes_max is not None and len(data) > _PIECE_BYTES:
                return _compress_pieces(cramjam.gzip.Compressor(level), data, bytes_max)
            return bytes(cramjam.gzip.compress(data, level))
        case Codec.SNAPPY:
            return _compress_xerial(data, bytes_max)
        case Codec.LZ4:
            return _compress_lz4(data, level, bytes_max)
        case Codec.ZSTD:
            level = _ZSTD_DEFAULT_LEVEL if level is None else level
            if bytes_max is not None and len(data) > _PIECE_BYTES:
                return _compress_pieces(cramjam.zstd.Compressor(level), data, bytes_max)
            return bytes(cramjam.zstd.compress(data, level))


def _compress_pieces(
    compressor: cramjam.gzip.Compressor | cramjam.zstd.Compressor, data: Buffer, bytes_max: int
) -> bytes:
    view = memoryview(data)
    parts: list[bytes] = []
    size = 0
    for start in range(0, len(view), _PIECE_BYTES):
        compressor.compress(bytes(view[start : start + _PIECE_BYTES]))
        parts.append(bytes(compressor.flush()))
        size += len(parts[-1])
        if size > bytes_max:
            return b"".join(parts)
    parts.append(bytes(compressor.finish()))
    return b"".join(parts)


def decompress(
    codec: Codec, data: Buffer, max_bytes: int = DECOMPRESSED_BYTES_MAX
) -> bytes | memoryview:
    """Decompress `data` in any framing that Kafka's clients use; raises `OpensTooLarge` for more
    than `max_bytes` of output."""
    try:
        match codec:
            case Codec.NONE:
                return bytes(_within(data, max_bytes))
            case Codec.GZIP:
                return _decompress_unsized(cramjam.gzip.decompress_into, data, max_bytes)
            case Codec.SNAPPY:
                return _decompress_snappy(data, max_bytes)
            case Codec.LZ4:
                return _decompress_unsized(cramjam.lz4.decompress_into, data, max_bytes)
            case Codec.ZSTD:
                return _decompress_unsized(cramjam.zstd.decompress_into, data, max_bytes)
    except (cramjam.DecompressionError, struct.error) as error:
        raise InvalidBatch(
            ErrorCode.INVALID_RECORD,
            f"the {codec.name.lower()} data of a batch is damaged: {error}",
        ) from None


def _compress_lz4(data: Buffer, level: int | None, bytes_max: int | None) -> bytes:
    """Return a frame like those of Kafka's own clients: independent blocks of 64 KB, no checksums
    except the header's. Working block by block stays in the processor's cache."""
    view = memoryview(data)
    parts: list[Buffer] = [_LZ4_FRAME_HEADER]
    size = 0
    for start in range(0, len(view), _LZ4_BLOCK_BYTES):
        plain = view[start : start + _LZ4_BLOCK_BYTES]
        block = _compress_lz4_block(plain, level)
        if len(block) < len(plain):
            parts += (_LZ4_BLOCK_SIZE.pack(len(block)), block)
        else:
            parts += (_LZ4_BLOCK_SIZE.pack(len(plain) | _LZ4_STORED_BIT), plain)
        size += len(parts[-1])
        if bytes_max is not None and size > bytes_max:
            break
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


def _compress_xerial(data: Buffer, bytes_max: int | None) -> bytes:
    view = memoryview(data)
    parts: list[bytes] = [_XERIAL_HEADER]
    size = 0
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (_BLOCK_SIZE.pack(len(block)), block)
        size += len(block)
        if bytes_max is not None and size > bytes_max:
            break
    return b"".join(parts)


def _decompress_snappy(data: Buffer, max_bytes: int) -> bytes | memoryview:
    view = memoryview(data)
    if bytes(view[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        blocks = [view]
    else:
        blocks = list(_xerial_blocks(view))
    sizes = [_snappy_size(block) for block in blocks]
    if (size := sum(sizes)) > max_bytes:
        raise _too_large(max_bytes)
    output = _room(size)
    start = 0
    for block, end in zip(blocks, accumulate(sizes), strict=True):
        # The native library requires an output that is not empty.
        if (
            end > start
            and cramjam.snappy.decompress_raw_into(block, output[start:end]) < end - start
        ):
            raise cramjam.DecompressionError("a block is shorter than it claims")
        start = end
    return _finished(output, size)


def _xerial_blocks(view: memoryview) -> Iterator[memoryview]:
    # The version numbers in the header are not checked: some producers write them in the wrong byte
    # order.
    position = len(_XERIAL_HEADER)
    while position < len(view):
        if bytes(view[position : position + len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC:
            position += len(_XERIAL_HEADER)  # streams may be concatenated
            continue
        (size,) = _BLOCK_SIZE.unpack_from(view, position)
        position += _BLOCK_SIZE.size
        if size > len(view) - position:
            raise cramjam.DecompressionError(f"a block of {size} bytes is cut off")
        yield view[position : position + size]
        position += size


def _snappy_size(block: memoryview) -> int:
    # The claimed length is allocated at once, so it is accepted only as far as the format can
    # expand its input.
    claimed: int = cramjam.snappy.decompress_raw_len(block)
    if claimed > len(block) * _SNAPPY_EXPANSION_MAX:
        raise cramjam.DecompressionError(f"{len(block)} bytes claim to hold {claimed}")
    return claimed


def _decompress_unsized(
    decompress_into: Callable[[Buffer, memoryview], int], data: Buffer, max_bytes: int
) -> bytes | memoryview:
    """Decompress into a small buffer or, if that is too small, into one of `max_bytes`."""
    guess = min(max(_GUESS_BYTES_MIN, len(data) * _GUESS_FACTOR), _GUESS_BYTES_MAX)
    for size in (min(guess, max_bytes), max_bytes):
        output = _room(size)
        try:
            return _finished(output, decompress_into(data, output))
        except cramjam.DecompressionError as error:
            if _OUTPUT_FULL not in str(error):
                raise
        if size == max_bytes:
            break
    raise _too_large(max_bytes)


def _room(size: int) -> memoryview:
    return memoryview(bytearray(size)) if size <= _GUESS_BYTES_MAX else mapped_memory(size)


def _finished(output: memoryview, size: int) -> bytes | memoryview:
    if len(output) <= _GUESS_BYTES_MAX:
        return bytes(output[:size])
    return output[:size].toreadonly()


def _within(data: Buffer, max_bytes: int) -> Buffer:
    if len(data) > max_bytes:
        raise _too_large(max_bytes)
    return data


def _too_large(max_bytes: int) -> OpensTooLarge:
    return OpensTooLarge(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"the records of a batch take more than {max_bytes} bytes uncompressed: "
        "send smaller batches",
    )

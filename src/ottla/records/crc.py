"""CRC-32C (Castagnoli), the checksum of every batch.

The native function reads any contiguous buffer where it lies and uses the processor's own
instruction: about 0.2 us for 1 KB, so that checking each batch on its way in costs next to
nothing.
"""

from crc32c import crc32c as _crc32c

from ottla.buffers import Buffer


def crc32c(buffer: Buffer, start: int = 0) -> int:
    """The checksum of `buffer`; `start` is the checksum of the bytes before it, to continue over
    several pieces.
    """
    return _crc32c(buffer, start)

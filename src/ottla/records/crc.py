"""CRC-32C (Castagnoli), the checksum of every batch.

`crc32c(buffer, start=0)` reads any contiguous buffer where it lies, with the processor's own
instruction: about 0.2 us for 1 KB, so that checking each batch on its way in costs next to
nothing. `start` continues the checksum of the bytes before.
"""

from crc32c import crc32c

__all__ = ["crc32c"]

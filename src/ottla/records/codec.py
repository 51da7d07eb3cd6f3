"""The names of the compression codecs, apart from the code that needs the native libraries."""

from enum import IntEnum


class Codec(IntEnum):
    """The compression of a batch's records: the low three bits of the batch attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

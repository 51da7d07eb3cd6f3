"""Records as columns, in buffers with Apache Arrow's layout.

Offsets, sizes and times are little-endian integers. A column of bytes is a buffer of `count + 1`
int32 offsets into a buffer of data. In a validity bitmap the lowest bit of the first byte is row 0,
and 1 means present. Without a bitmap every row is present.
"""

from typing import Any, NamedTuple

COLUMN_BYTES_MAX = (1 << 31) - 1
"""The most that an int32 offset can address."""


class ColumnBuffers(NamedTuple):
    """`count` rows. Every field except `count` supports the buffer protocol.

    When records are written from columns, `offsets` is not used, a column without offsets
    (`key_offsets` None) is null in every row, and `header_offsets` None means no headers.
    """

    count: int  # type: ignore[assignment]
    offsets: Any
    """int64 each."""
    timestamps: Any
    """int64 each."""
    key_offsets: Any
    key_data: Any
    key_validity: Any
    value_offsets: Any
    value_data: Any
    value_validity: Any
    header_offsets: Any = None
    """Where the headers of each row begin among all headers; the fields below hold all headers."""
    header_key_offsets: Any = None
    header_key_data: Any = None
    header_value_offsets: Any = None
    header_value_data: Any = None
    header_value_validity: Any = None

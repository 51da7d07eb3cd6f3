"""The payload of a batch -> the records for an application."""

from collections.abc import Callable
from typing import Any, TypeVar

from ottla.buffers import Buffer
from ottla.records.payload import decode_records

R = TypeVar("R", bound=tuple[Any, ...])


def consumer_records(
    payload: Buffer,
    count: int,
    base_offset: int,
    base_timestamp: int,
    append_time: int | None,
    from_offset: int,
    topic: str,
    partition: int,
    timestamp_type: int,
    leader_epoch: int,
    cls: type[R],
    key_of: Callable[[bytes], Any] | None = None,
    value_of: Callable[[bytes], Any] | None = None,
) -> list[R]:
    """Return the records from `from_offset` on, each a `cls` of topic, partition, offset,
    timestamp, timestamp type, key, value, headers and leader epoch.

    `append_time` replaces all timestamps. `key_of` and `value_of` deserialize bytes; null stays
    None.
    """
    new = tuple.__new__
    records: list[R] = []
    for offset, timestamp, key, value, headers in decode_records(
        bytes(payload), count, base_offset, base_timestamp, append_time
    ):
        if offset < from_offset:
            continue
        fields = (
            topic,
            partition,
            offset,
            timestamp,
            timestamp_type,
            key if key_of is None or key is None else key_of(key),
            value if value_of is None or value is None else value_of(value),
            headers,
            leader_epoch,
        )
        records.append(new(cls, fields))
    return records

"""The payload of a batch -> what a broker needs to know of its records."""

from ottla.buffers import Buffer
from ottla.records.header import NO_TIMESTAMP
from ottla.records.payload import decode_records
from ottla.records.survey import NO_EARLIEST, Survey


def survey_records(payload: Buffer, count: int, base_timestamp: int) -> Survey:
    """Survey the records; each is read and must be complete."""
    earliest, latest = NO_EARLIEST, NO_TIMESTAMP
    is_consecutive = has_keys = True
    records = decode_records(bytes(payload), count, 0, base_timestamp)
    for index, (offset, timestamp, key, _, _) in enumerate(records):
        if timestamp > latest:
            latest = timestamp
        if timestamp < earliest and timestamp != NO_TIMESTAMP:
            earliest = timestamp
        if offset != index:
            is_consecutive = False
        if key is None:
            has_keys = False
    return Survey(earliest, latest, is_consecutive, has_keys)

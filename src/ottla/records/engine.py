"""The work done record by record, by compiled code where it could be built.

Each module of `native` has a twin of the same name in `pure` that does the same in Python, slower;
code outside this room imports from here and does not know which one it got.
"""

try:
    from ottla.records.native.consumer_records import consumer_records
    from ottla.records.native.key_offsets import KeyOffsets
    from ottla.records.native.murmur2 import murmur2, partition_rows
    from ottla.records.native.record_columns import RecordColumns
    from ottla.records.native.record_copy import copy_records
    from ottla.records.native.survey_records import survey_records
    from ottla.records.native.writer import PayloadWriter, record_size_max
except ImportError:
    from ottla.records.pure.consumer_records import consumer_records
    from ottla.records.pure.key_offsets import KeyOffsets
    from ottla.records.pure.murmur2 import murmur2, partition_rows
    from ottla.records.pure.record_columns import RecordColumns
    from ottla.records.pure.record_copy import copy_records
    from ottla.records.pure.survey_records import survey_records
    from ottla.records.pure.writer import PayloadWriter, record_size_max

__all__ = [
    "NATIVE",
    "KeyOffsets",
    "PayloadWriter",
    "RecordColumns",
    "consumer_records",
    "copy_records",
    "murmur2",
    "partition_rows",
    "record_size_max",
    "survey_records",
]

NATIVE = PayloadWriter.__module__.startswith("ottla.records.native.")
"""Whether this is the compiled code."""

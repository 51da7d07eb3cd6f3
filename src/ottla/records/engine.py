"""The loops over single records and index entries: compiled code if it could be built.

Each module of `native` has a counterpart of the same name in `pure` that does the same in Python,
slower; code outside this package imports from here and does not know which one it gets.
"""

try:
    from ottla.records.native.consumer_records import consumer_records
    from ottla.records.native.index_search import floor_slot
    from ottla.records.native.key_offsets import KeyOffsets
    from ottla.records.native.murmur2 import murmur2, partition_rows
    from ottla.records.native.record_columns import RecordColumns
    from ottla.records.native.record_copy import copy_records, renumber_records
    from ottla.records.native.record_search import find_faults, find_timestamp
    from ottla.records.native.survey_records import survey_records
    from ottla.records.native.writer import PayloadWriter, record_size_max
except ImportError:
    from ottla.records.pure.consumer_records import consumer_records
    from ottla.records.pure.index_search import floor_slot
    from ottla.records.pure.key_offsets import KeyOffsets
    from ottla.records.pure.murmur2 import murmur2, partition_rows
    from ottla.records.pure.record_columns import RecordColumns
    from ottla.records.pure.record_copy import copy_records, renumber_records
    from ottla.records.pure.record_search import find_faults, find_timestamp
    from ottla.records.pure.survey_records import survey_records
    from ottla.records.pure.writer import PayloadWriter, record_size_max

__all__ = [
    "NATIVE",
    "KeyOffsets",
    "PayloadWriter",
    "RecordColumns",
    "consumer_records",
    "copy_records",
    "find_faults",
    "find_timestamp",
    "floor_slot",
    "murmur2",
    "partition_rows",
    "record_size_max",
    "renumber_records",
    "survey_records",
]

NATIVE = PayloadWriter.__module__.startswith("ottla.records.native.")
"""True if this is the compiled code."""

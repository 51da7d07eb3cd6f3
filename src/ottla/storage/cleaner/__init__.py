"""Compaction: a log keeps the last record of each key.

choice        which log is dirty enough, and which part of it may be touched
job           a log's segments as plain data: what the work needs to know, and what it reports
compaction    the work itself, step by step; it runs in a thread or in a child process alike
batch_filter  what is left of one batch
transactions  which batches were aborted, and which markers are still needed
worker        the child process
cleaner       chooses, hands out the work, puts the results into the log

What is done record by record is in `ottla.records.engine`: `KeyOffsets`, the last offset of each
key, and `copy_records`.
"""

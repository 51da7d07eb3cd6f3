"""Compaction: a log keeps the last record of each key.

choice        which log is dirty enough, and which part of it may be compacted
job           a log's segments as plain data: the input of the work, and its results
compaction    the work itself, step by step; it runs in a thread or in a child process alike
batch_filter  which records of a batch are kept
transactions  which batches were aborted, and which markers are still needed
worker        the child process
lane          runs the work on the logs chosen for it, puts the results into the log
cleaner       chooses logs, gives them to its lanes

The loops over single records are in `ottla.records.engine`: `KeyOffsets`, the last offset of each
key, and `copy_records`.
"""

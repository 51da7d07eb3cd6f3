"""The log on disk: from a single index entry up to all partitions in all data folders.

The ladder of nouns, lowest first:

    offset_index, time_index, transaction_index   what helps to find a place in one segment
    segment                                       one file of batches with its three indexes
    producer_state, leader_epochs                 what must be known about the batches of a log
    log_state, log_reading, log_flushing,
    log_shaping, log                              one partition: reads, flushes, retention, appends
    recovery                                      how a log is put together again from its folder
    log_dir, log_manager, housekeeping            data folders, every log in them, their upkeep

All formats are Kafka's, byte for byte.
"""

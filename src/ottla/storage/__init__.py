"""The log on disk: from a single index entry up to all partitions in all data folders.

The ladder of nouns, lowest first:

    offset_index, time_index, transaction_index   what helps to find a place in one segment
    segment                                       one file of batches with its three indexes
    producer_state, leader_epochs                 what must be known about the batches of a log
    log                                           one partition: segments, appends, reads, retention
    recovery                                      how a log is put together again from its folder
    log_dir, log_manager                          data folders, and every log in them

All formats are Kafka's, byte for byte.
"""

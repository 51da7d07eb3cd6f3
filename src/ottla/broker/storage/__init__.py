"""The log on disk: from a single index entry up to all partitions in all log dirs.

The layers, lowest first:

    offset_index, time_index, transaction_index   find a position in one segment
    segment, segments                             one file of batches with its three indexes; all
                                                  those of a log
    producer_state, leader_epochs                 state derived from the batches of a log
    recovery                                      loads a log from its folder
    log_reading, flusher, retention, log          one partition: reads, flushes, expiry, appends
    log_dir, log_dirs, log_manager, housekeeping  log dirs, every log in them, their upkeep

All formats are Kafka's, byte for byte.
"""

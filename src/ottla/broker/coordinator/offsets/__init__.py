"""Committed offsets of groups.

store.py      committed offsets, those pending in open transactions, and the records of both
commit.py     OffsetCommit and TxnOffsetCommit
fetch.py      OffsetFetch
deletion.py   OffsetDelete, and offsets that are deleted with their topic
expiry.py     offsets that expire
legacy.py     records of Kafka 0.8
"""

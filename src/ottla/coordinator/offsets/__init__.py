"""Committed offsets of groups.

store.py      what is committed, what waits in open transactions, and the records of both
commit.py     OffsetCommit and TxnOffsetCommit
fetch.py      OffsetFetch
deletion.py   OffsetDelete, and offsets that go with their group or topic
expiry.py     offsets that nobody has needed for long
"""

"""Operations with state, as plain functions from frames to frames.

A frame of a stream has the columns `key`, `value`, `timestamp`, and may have `headers` and the
origin of a record: `__topic`, `__partition` and `__offset`. A frame of a table is its changelog:
the same columns, and a null value deletes the key.

Spark itself does what it can (`windows`, `joins.stream_stream`). The rest shares one engine:
records travel as text (`packing`), many keys together in a bucket (`engine`), and a small class
without Spark handles the records of one key (`folds`, `sessions`, `tables`...).
"""

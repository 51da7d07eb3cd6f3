"""Operations that remember, as plain functions from frames to frames.

A frame of a stream has the columns `key`, `value`, `timestamp`, and may have `headers` and, to tell
where a record came from, `__topic`, `__partition` and `__offset`. A frame of a table is its
changelog: the same columns, and a value that is null deletes the key.

What Spark can do by itself is done by Spark (`windows`, `joins.stream_stream`). The rest shares one
engine: records travel as text (`packing`), many keys together in a bucket (`engine`), and what
happens to the records of one key is a small class without Spark (`folds`, `sessions`, `tables`...).
"""

"""Keys of the log: folders, segments, retention, flushing, compaction, limits of batches."""

from typing import Final

from ottla.config.keys import declare

KEYS: Final = declare("""
high list log.dir = /tmp/kafka-logs (non-empty list)
    Where the data lives when log.dirs is not set.
high list log.dirs (non-empty list)
    Folders for the data, separated by commas; a partition lives in one of them.
medium int num.partitions = 1 (at least 1)
    Partitions of a topic created without a number of its own.
high boolean auto.create.topics.enable = true
    Whether producing to or asking about a missing topic creates it.
high int num.recovery.threads.per.data.dir = 2 (at least 1)
    Threads per data folder that load and recover logs at start and flush them at stop.
high int log.segment.bytes = 1073741824 (at least 1048576)
    Size at which a segment is closed and the next one begun.
high long log.roll.ms
    Age at which a segment is closed though not full; falls back to log.roll.hours.
high int log.roll.hours = 168 (at least 1)
    As log.roll.ms, in hours.
high long log.roll.jitter.ms
    Random part of the roll age; falls back to log.roll.jitter.hours.
high int log.roll.jitter.hours = 0 (at least 0)
    As log.roll.jitter.ms, in hours.
high long log.retention.ms
    How long records are kept, -1 for ever; falls back to log.retention.minutes.
high int log.retention.minutes
    As log.retention.ms, in minutes; falls back to log.retention.hours.
high int log.retention.hours = 168
    As log.retention.ms, in hours.
high long log.retention.bytes = -1
    Size a partition may reach before its oldest segments go, -1 for no limit.
medium long log.retention.check.interval.ms = 300000 (at least 1)
    How often logs are searched for segments to delete.
medium list log.cleanup.policy = delete (list of compact, delete)
    What happens to old segments: delete, compact, both, or (empty) neither.
medium int log.index.interval.bytes = 4096 (at least 0)
    Bytes of records between two index entries.
medium int log.index.size.max.bytes = 10485760 (at least 4)
    Size of an index file; a full index rolls the segment.
high long log.flush.interval.messages = 9223372036854775807 (at least 1)
    Records after which a log is forced to disk before the producer is answered.
high long log.flush.interval.ms
    Longest wait for being forced to disk; falls back to log.flush.scheduler.interval.ms.
high long log.flush.scheduler.interval.ms = 9223372036854775807
    How often logs are searched for records due to be flushed.
high int log.flush.offset.checkpoint.interval.ms = 60000 (at least 0)
    How often the recovery points are written to their checkpoint file.
high int log.flush.start.offset.checkpoint.interval.ms = 60000 (at least 0)
    How often the log start offsets are written to their checkpoint file.
high long log.segment.delete.delay.ms = 60000 (at least 0)
    How long a deleted segment's files stay on disk under their .deleted name.
medium boolean log.preallocate = false
    Whether a new segment's file gets its full size at once.
medium string log.message.timestamp.type = CreateTime (one of CreateTime, LogAppendTime)
    Whether a record carries the time its producer gave it or the time of its append.
medium long log.message.timestamp.before.max.ms = 9223372036854775807 (at least 0)
    How far a producer's timestamp may lie behind the broker's clock.
medium long log.message.timestamp.after.max.ms = 3600000 (at least 0)
    How far a producer's timestamp may lie ahead of the broker's clock.
medium long log.local.retention.ms = -2 (at least -2)
    Time records stay on local disk under tiered storage; -2 means log.retention.ms.
medium long log.local.retention.bytes = -2 (at least -2)
    Size of the local part under tiered storage; -2 means log.retention.bytes.
low long log.dir.failure.timeout.ms = 30000 (at least 1)
    How long a failed folder may stay unreported before the broker stops.
low internal long log.initial.task.delay.ms = 30000 (at least 0)
    Delay of the first round of background work on logs.
medium boolean log.cleaner.enable = true
    Whether compaction runs.
medium int log.cleaner.threads = 1 (at least 0)
    Threads that compact.
medium long log.cleaner.backoff.ms = 15000 (at least 0)
    Pause when there is nothing to compact.
medium long log.cleaner.dedupe.buffer.size = 134217728
    Memory for the map of keys, all threads together.
medium int log.cleaner.io.buffer.size = 524288 (at least 0)
    Memory for reading and writing, all threads together.
medium double log.cleaner.io.buffer.load.factor = 0.9
    How full the map of keys may get.
medium double log.cleaner.io.max.bytes.per.second = 1.7976931348623157E308
    Limit on the cleaner's reads and writes.
medium double log.cleaner.min.cleanable.ratio = 0.5 (0 to 1)
    Dirty share of a log at which it is worth compacting.
medium long log.cleaner.delete.retention.ms = 86400000 (at least 0)
    How long a tombstone outlives the compaction that met it.
medium long log.cleaner.min.compaction.lag.ms = 0 (at least 0)
    Shortest time a record stays uncompacted.
medium long log.cleaner.max.compaction.lag.ms = 9223372036854775807 (at least 1)
    Longest time a record may stay uncompacted.
high int message.max.bytes = 1048588 (at least 0)
    Largest record batch accepted, as it arrives (compressed if it is compressed).
high string compression.type = producer (one of uncompressed, zstd, lz4, snappy, gzip, producer)
    Codec batches are stored with; `producer` keeps what the producer chose.
medium int compression.gzip.level = -1 (1 to 9 or -1)
    Level for gzip when the broker recompresses; -1 is the codec's default.
medium int compression.lz4.level = 9 (1 to 17)
    Level for lz4 when the broker recompresses.
medium int compression.zstd.level = 3 (-131072 to 22)
    Level for zstd when the broker recompresses.
low class create.topic.policy.class.name
    Class that may refuse a new topic.
low class alter.config.policy.class.name
    Class that may refuse a configuration change.
medium list cordoned.log.dirs = (list)
    Folders that take no new partitions; `*` for all of them.
""")

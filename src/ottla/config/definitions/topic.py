"""Keys a topic may set for itself; `ottla.config.synonyms` says where their defaults come from."""

from typing import Final

from ottla.config.keys import declare

KEYS: Final = declare("""
medium list cleanup.policy = delete (list of compact, delete)
    What happens to old segments: delete, compact, both, or (empty) neither.
medium int compression.gzip.level = -1 (1 to 9 or -1)
    Level for gzip when the broker recompresses; -1 is the codec's default.
medium int compression.lz4.level = 9 (1 to 17)
    Level for lz4 when the broker recompresses.
medium string compression.type = producer (one of uncompressed, zstd, lz4, snappy, gzip, producer)
    Codec batches are stored with; `producer` keeps what the producer chose.
medium int compression.zstd.level = 3 (-131072 to 22)
    Level for zstd when the broker recompresses.
medium long delete.retention.ms = 86400000 (at least 0)
    How long a tombstone outlives the compaction that met it.
medium long file.delete.delay.ms = 60000 (at least 0)
    How long a deleted segment's files stay on disk under their .deleted name.
medium long flush.messages = 9223372036854775807 (at least 1)
    Records after which the log is forced to disk before the producer is answered.
medium long flush.ms = 9223372036854775807 (at least 0)
    Longest time a record may wait for being forced to disk.
medium list follower.replication.throttled.replicas = (replicas)
    Replicas whose catching up is throttled on the follower's side.
medium int index.interval.bytes = 4096 (at least 0)
    Bytes of records between two index entries.
medium internal int internal.segment.bytes
    Segment size below the usual limit, for tests.
medium list leader.replication.throttled.replicas = (replicas)
    Replicas whose catching up is throttled on the leader's side.
medium long local.retention.bytes = -2 (at least -2)
    Size of the local part under tiered storage; -2 means retention.bytes.
medium long local.retention.ms = -2 (at least -2)
    Time records stay on local disk under tiered storage; -2 means retention.ms.
medium long max.compaction.lag.ms = 9223372036854775807 (at least 1)
    Longest time a record may stay uncompacted.
medium int max.message.bytes = 1048588 (at least 0)
    Largest record batch accepted, as it arrives (compressed if it is compressed).
medium long message.timestamp.after.max.ms = 3600000 (at least 0)
    How far a producer's timestamp may lie ahead of the broker's clock.
medium long message.timestamp.before.max.ms = 9223372036854775807 (at least 0)
    How far a producer's timestamp may lie behind the broker's clock.
medium string message.timestamp.type = CreateTime (one of CreateTime, LogAppendTime)
    Whether a record carries the time its producer gave it or the time of its append.
medium double min.cleanable.dirty.ratio = 0.5 (0 to 1)
    Dirty share of the log at which it is worth compacting.
medium long min.compaction.lag.ms = 0 (at least 0)
    Shortest time a record stays uncompacted.
medium int min.insync.replicas = 1 (at least 1)
    Replicas that must have a record before acks=all is answered.
medium boolean preallocate = false
    Whether a new segment's file gets its full size at once.
medium boolean remote.log.copy.disable = false
    Whether tiered data is read-only.
medium boolean remote.log.delete.on.disable = false
    Whether turning tiered storage off deletes what was tiered.
medium boolean remote.storage.enable = false
    Whether old segments move to tiered storage.
medium long retention.bytes = -1
    Size a partition may reach before its oldest segments go, -1 for no limit.
medium long retention.ms = 604800000 (at least -1)
    How long records are kept, -1 for ever.
medium int segment.bytes = 1073741824 (at least 1048576)
    Size at which a segment is closed and the next one begun.
medium int segment.index.bytes = 10485760 (at least 4)
    Size of an index file; a full index rolls the segment.
medium long segment.jitter.ms = 0 (at least 0)
    Random part of the roll age, so that segments do not all roll at once.
medium long segment.ms = 604800000 (at least 1)
    Age at which a segment is closed though not full.
medium boolean unclean.leader.election.enable = false
    Whether a replica that may miss records can become leader when no other is left.
""")

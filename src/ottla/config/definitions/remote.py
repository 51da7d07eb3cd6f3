"""Keys of tiered storage."""

from typing import Final

from ottla.config.keys import declare

KEYS: Final = declare("""
medium boolean remote.log.storage.system.enable = false
    Whether tiered storage is on.
medium string remote.log.storage.manager.class.name (non-empty)
    Class that stores segments.
medium string remote.log.storage.manager.class.path
    Where that class is found.
medium string remote.log.storage.manager.impl.prefix = rsm.config. (non-empty)
    Prefix of that class's own keys.
medium string remote.log.metadata.manager.class.name = \
org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager (non-empty)
    Class that keeps the index of stored segments.
medium string remote.log.metadata.manager.class.path
    Where that class is found.
medium string remote.log.metadata.manager.impl.prefix = rlmm.config. (non-empty)
    Prefix of that class's own keys.
medium string remote.log.metadata.manager.listener.name (non-empty)
    Listener that class connects to.
low int remote.log.metadata.custom.metadata.max.bytes = 128 (at least 0)
    Most bytes of custom metadata of a segment.
medium int remote.log.manager.thread.pool.size = 2 (at least 1)
    Threads for tiered work.
medium int remote.log.manager.copier.thread.pool.size = 10 (at least 1)
    Threads that copy segments.
medium int remote.log.manager.expiration.thread.pool.size = 10 (at least 1)
    Threads that delete stored segments.
medium int remote.log.manager.follower.thread.pool.size = 2 (at least 1)
    Threads of followers.
low long remote.log.manager.task.interval.ms = 30000 (at least 1)
    How often segments are looked for.
low internal long remote.log.manager.task.retry.backoff.ms = 500 (at least 1)
    Pause after a failure.
low internal long remote.log.manager.task.retry.backoff.max.ms = 30000 (at least 1)
    Longest such pause.
low internal double remote.log.manager.task.retry.jitter = 0.2 (0 to 0.5)
    Random part of such a pause.
medium long remote.log.manager.copy.max.bytes.per.second = 9223372036854775807 (at least 1)
    Limit on copying.
medium int remote.log.manager.copy.quota.window.num = 11 (at least 1)
    Windows copying is measured over.
medium int remote.log.manager.copy.quota.window.size.seconds = 1 (at least 1)
    Length of such a window.
medium long remote.log.manager.fetch.max.bytes.per.second = 9223372036854775807 (at least 1)
    Limit on reading back.
medium int remote.log.manager.fetch.quota.window.num = 11 (at least 1)
    Windows reading back is measured over.
medium int remote.log.manager.fetch.quota.window.size.seconds = 1 (at least 1)
    Length of such a window.
medium int remote.log.reader.threads = 10 (at least 1)
    Threads that read back.
medium int remote.log.reader.max.pending.tasks = 100 (at least 1)
    Reads waiting for them.
low long remote.log.index.file.cache.total.size.bytes = 1073741824 (at least 1)
    Room for indexes read back.
low internal long remote.log.index.file.cache.ttl.ms = 900000 (at least -1)
    How long an unused index is kept.
medium int remote.fetch.max.wait.ms = 500 (at least 1)
    Longest wait of a fetch for stored data.
medium long remote.list.offsets.request.timeout.ms = 30000 (at least 1)
    Longest wait of a search in stored data.
""")

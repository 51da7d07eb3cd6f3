"""Keys of share groups and their coordinator."""

from typing import Final

from ottla.config.keys import declare

KEYS: Final = declare("""
medium list group.share.assignors = simple (non-empty list)
    Assignors of share groups.
medium int group.share.session.timeout.ms = 45000 (at least 1)
    Silence after which a member leaves its share group.
medium int group.share.min.session.timeout.ms = 45000 (at least 1)
    Least value a group may set.
medium int group.share.max.session.timeout.ms = 60000 (at least 1)
    Largest value a group may set.
medium int group.share.heartbeat.interval.ms = 5000 (at least 1)
    Heartbeat interval told to members.
medium int group.share.min.heartbeat.interval.ms = 5000 (at least 1)
    Least value a group may set.
medium int group.share.max.heartbeat.interval.ms = 15000 (at least 1)
    Largest value a group may set.
medium int group.share.assignment.interval.ms = 1000 (at least 0)
    Least time between two assignments.
medium int group.share.min.assignment.interval.ms = 0 (at least 0)
    Least value a group may set.
medium int group.share.max.assignment.interval.ms = 15000 (at least 0)
    Largest value a group may set.
medium int group.share.delivery.count.limit = 5 (2 to 10)
    Deliveries after which a record is given up.
medium int group.share.min.delivery.count.limit = 2 (2 to 5)
    Least value a group may set.
medium int group.share.max.delivery.count.limit = 10 (5 to 25)
    Largest value a group may set.
medium int group.share.partition.max.record.locks = 2000 (100 to 10000)
    Records of a partition in delivery at once.
medium int group.share.min.partition.max.record.locks = 100 (100 to 2000)
    Least value a group may set.
medium int group.share.max.partition.max.record.locks = 4000 (2000 to 10000)
    Largest value a group may set.
medium int group.share.record.lock.duration.ms = 30000 (1000 to 3600000)
    How long a delivered record is locked.
medium int group.share.min.record.lock.duration.ms = 15000 (1000 to 30000)
    Least value a group may set.
medium int group.share.max.record.lock.duration.ms = 60000 (30000 to 3600000)
    Largest value a group may set.
medium int group.share.max.share.sessions = 2000 (at least 1)
    Share sessions remembered.
medium int group.share.max.size = 200 (1 to 1000)
    Most members of a share group.
low internal int group.share.initialize.retry.interval.ms = 30000 (at least 1)
    Pause before state is initialized again.
medium internal string group.share.persister.class.name = \
org.apache.kafka.server.share.persister.DefaultStatePersister
    Class that keeps share state.
medium int share.coordinator.threads = 1 (at least 1)
    Threads of the share coordinator.
medium int share.coordinator.append.linger.ms = -1 (at least -1)
    Wait for more records before writing, -1 to adapt.
medium int share.coordinator.cached.buffer.max.bytes = 1048588 (at least 524288)
    Largest write buffer kept for reuse.
high int share.coordinator.write.timeout.ms = 5000 (at least 1)
    Longest wait for a write to be replicated.
high int share.coordinator.load.buffer.size = 5242880 (at least 1)
    Bytes read at once when state is loaded.
medium int share.coordinator.snapshot.update.records.per.snapshot = 500 (0 to 500)
    Updates between two snapshots.
low internal int share.coordinator.cold.partition.snapshot.interval.ms = 300000 (at least 1)
    How often idle state is snapshotted.
high int share.coordinator.state.topic.compression.codec = 0
    Codec of the state topic, by number.
high short share.coordinator.state.topic.min.isr = 2 (at least 1)
    In-sync replicas the state topic needs.
high int share.coordinator.state.topic.num.partitions = 50 (at least 1)
    Partitions of the state topic.
low internal int share.coordinator.state.topic.prune.interval.ms = 300000 (at least 1)
    How often old state is deleted.
high short share.coordinator.state.topic.replication.factor = 3 (at least 1)
    Replicas of the state topic.
high int share.coordinator.state.topic.segment.bytes = 104857600 (at least 1)
    Segment size of the state topic.
""")

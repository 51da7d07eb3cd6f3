"""Keys of the group coordinator, for classic, consumer and streams groups."""

from typing import Final

from ottla.config.keys import declare

KEYS: Final = declare("""
medium list group.coordinator.rebalance.protocols = classic,consumer,streams \
(non-empty list of consumer, classic, share, streams)
    Group protocols served.
high int group.coordinator.threads = 4 (at least 1)
    Threads of the group coordinator.
high int group.coordinator.background.threads = 2 (at least 1)
    Threads for long work of the group coordinator.
medium int group.coordinator.append.linger.ms = -1 (at least -1)
    Wait for more records before writing, -1 to adapt.
medium int group.coordinator.cached.buffer.max.bytes = 1048588 (at least 524288)
    Largest write buffer kept for reuse.
medium int group.initial.rebalance.delay.ms = 3000
    Wait for more members before the first rebalance of a classic group.
medium int group.min.session.timeout.ms = 6000
    Shortest session timeout of a classic member.
medium int group.max.session.timeout.ms = 1800000
    Longest session timeout of a classic member.
medium int group.max.size = 2147483647 (at least 1)
    Most members of a classic group.
medium list group.consumer.assignors = uniform,range (non-empty list)
    Assignors of consumer groups, the first is the default.
medium int group.consumer.session.timeout.ms = 45000 (at least 1)
    Silence after which a consumer leaves its group.
medium int group.consumer.min.session.timeout.ms = 45000 (at least 1)
    Least value a group may set.
medium int group.consumer.max.session.timeout.ms = 60000 (at least 1)
    Largest value a group may set.
medium int group.consumer.heartbeat.interval.ms = 5000 (at least 1)
    Heartbeat interval told to consumers.
medium int group.consumer.min.heartbeat.interval.ms = 5000 (at least 1)
    Least value a group may set.
medium int group.consumer.max.heartbeat.interval.ms = 15000 (at least 1)
    Largest value a group may set.
medium int group.consumer.assignment.interval.ms = 1000 (at least 0)
    Least time between two assignments.
medium int group.consumer.min.assignment.interval.ms = 0 (at least 0)
    Least value a group may set.
medium int group.consumer.max.assignment.interval.ms = 15000 (at least 0)
    Largest value a group may set.
medium int group.consumer.max.size = 2147483647 (at least 1)
    Most members of a consumer group.
medium string group.consumer.migration.policy = bidirectional \
(any case of DISABLED, DOWNGRADE, UPGRADE, BIDIRECTIONAL)
    Which ways groups may change protocol.
medium internal int group.consumer.regex.refresh.interval.ms = 600000 (at least 10000)
    How often pattern subscriptions are resolved again.
high int offset.metadata.max.bytes = 4096
    Longest note committed with an offset.
high int offsets.commit.timeout.ms = 5000 (at least 1)
    Longest wait for a commit to be replicated.
high int offsets.load.buffer.size = 5242880 (at least 1)
    Bytes read at once when offsets are loaded.
high long offsets.retention.check.interval.ms = 600000 (at least 1)
    How often expired offsets are looked for.
high int offsets.retention.minutes = 10080 (at least 1)
    How long an empty group's offsets are kept.
high int offsets.topic.compression.codec = 0
    Codec of the offsets topic, by number.
high int offsets.topic.num.partitions = 50 (at least 1)
    Partitions of the offsets topic.
high short offsets.topic.replication.factor = 3 (at least 1)
    Replicas of the offsets topic; unless set, never more than there are brokers.
high int offsets.topic.segment.bytes = 104857600 (at least 1)
    Segment size of the offsets topic.
medium int group.streams.session.timeout.ms = 45000 (at least 1)
    Silence after which a streams member leaves its group.
medium int group.streams.min.session.timeout.ms = 45000 (at least 1)
    Least value a group may set.
medium int group.streams.max.session.timeout.ms = 60000 (at least 1)
    Largest value a group may set.
medium int group.streams.heartbeat.interval.ms = 5000 (at least 1)
    Heartbeat interval told to streams members.
medium int group.streams.min.heartbeat.interval.ms = 5000 (at least 1)
    Least value a group may set.
medium int group.streams.max.heartbeat.interval.ms = 15000 (at least 1)
    Largest value a group may set.
medium int group.streams.assignment.interval.ms = 1000 (at least 0)
    Least time between two assignments.
medium int group.streams.min.assignment.interval.ms = 0 (at least 0)
    Least value a group may set.
medium int group.streams.max.assignment.interval.ms = 15000 (at least 0)
    Largest value a group may set.
medium int group.streams.initial.rebalance.delay.ms = 3000 (at least 0)
    Wait for more members before the first assignment.
medium int group.streams.max.size = 2147483647 (at least 1)
    Most members of a streams group.
medium int group.streams.num.standby.replicas = 0 (at least 0)
    Standby copies of state.
medium int group.streams.max.standby.replicas = 2 (at least 0)
    Largest value a group may set.
""")

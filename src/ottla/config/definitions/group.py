"""Keys a group may set for itself."""

from typing import Final

from ottla.config.keys import declare

KEYS: Final = declare("""
medium int consumer.session.timeout.ms = 45000 (at least 1)
    Silence after which a consumer leaves the group.
medium int consumer.heartbeat.interval.ms = 5000 (at least 1)
    Heartbeat interval told to consumers.
medium int consumer.assignment.interval.ms = 1000 (at least 0)
    Least time between two assignments.
medium int share.session.timeout.ms = 45000 (at least 1)
    Silence after which a member leaves the share group.
medium int share.heartbeat.interval.ms = 5000 (at least 1)
    Heartbeat interval told to share members.
medium int share.assignment.interval.ms = 1000 (at least 0)
    Least time between two assignments.
medium string share.auto.offset.reset = latest (offset reset)
    Where a share group without a start offset begins.
medium string share.isolation.level = read_uncommitted (one of read_committed, read_uncommitted)
    Whether a share group sees records of open transactions.
medium int share.delivery.count.limit = 5 (at least 2)
    Deliveries after which a record is given up.
medium int share.partition.max.record.locks = 2000 (at least 100)
    Records of a partition in delivery at once.
medium int share.record.lock.duration.ms = 30000 (at least 1000)
    How long a delivered record is locked.
medium boolean share.renew.acknowledge.enable = true
    Whether members may renew a lock.
medium int streams.session.timeout.ms = 45000 (at least 1)
    Silence after which a streams member leaves the group.
medium int streams.heartbeat.interval.ms = 5000 (at least 1)
    Heartbeat interval told to streams members.
medium int streams.assignment.interval.ms = 1000 (at least 0)
    Least time between two assignments.
medium int streams.initial.rebalance.delay.ms = 3000 (at least 0)
    Wait for more members before the first assignment.
medium int streams.num.standby.replicas = 0 (at least 0)
    Standby copies of state.
""")

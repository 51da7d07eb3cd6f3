"""Keys of quotas."""

from typing import Final

from ottla.config.keys import declare

KEYS: Final = declare("""
low int quota.window.num = 11 (at least 1)
    Windows a client quota is measured over.
low int quota.window.size.seconds = 1 (at least 1)
    Length of such a window.
low int replication.quota.window.num = 11 (at least 1)
    Windows replication throttling is measured over.
low int replication.quota.window.size.seconds = 1 (at least 1)
    Length of such a window.
low int alter.log.dirs.replication.quota.window.num = 11 (at least 1)
    Windows the moving of replicas is measured over.
low int alter.log.dirs.replication.quota.window.size.seconds = 1 (at least 1)
    Length of such a window.
low int controller.quota.window.num = 11 (at least 1)
    Windows controller quotas are measured over.
low int controller.quota.window.size.seconds = 1 (at least 1)
    Length of such a window.
low class client.quota.callback.class
    Class that decides client quotas.
medium long leader.replication.throttled.rate = 9223372036854775807 (at least 0)
    Bytes a second a leader sends to throttled replicas.
medium long follower.replication.throttled.rate = 9223372036854775807 (at least 0)
    Bytes a second a follower takes for throttled replicas.
medium long replica.alter.log.dirs.io.max.bytes.per.second = 9223372036854775807 (at least 0)
    Bytes a second for moving replicas between folders.
""")

RUN_TIME_ONLY: Final = frozenset(
    {
        "leader.replication.throttled.rate",
        "follower.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    }
)
"""Keys that are not for files: they are set while a broker runs, and DescribeConfigs lists them
only if they are set."""

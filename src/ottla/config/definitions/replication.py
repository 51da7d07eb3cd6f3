"""Keys of replication."""

from typing import Final

from ottla.config.keys import declare

KEYS: Final = declare("""
medium int default.replication.factor = 1
    Replicas of a topic created without a number of its own.
high int min.insync.replicas = 1 (at least 1)
    Replicas that must have a record before acks=all is answered.
high boolean unclean.leader.election.enable = false
    Whether a replica that may miss records can lead when no other is left.
medium internal long unclean.leader.election.interval.ms = 300000 (at least 1)
    How often unclean elections are tried.
high long replica.lag.time.max.ms = 30000
    Time behind after which a follower leaves the in-sync set.
high long replica.high.watermark.checkpoint.interval.ms = 5000
    How often high watermarks are written to their checkpoint file.
high int replica.fetch.min.bytes = 1
    Least bytes a follower waits for.
medium int replica.fetch.max.bytes = 1048576 (at least 0)
    Most bytes a follower fetches of one partition.
medium int replica.fetch.response.max.bytes = 10485760 (at least 0)
    Most bytes a follower fetches at once.
high int replica.fetch.wait.max.ms = 500
    Longest wait of a follower's fetch.
medium int replica.fetch.backoff.ms = 1000 (at least 0)
    Pause after a failed fetch.
high int replica.socket.timeout.ms = 30000
    Time for a follower's request.
high int replica.socket.receive.buffer.bytes = 65536
    Receive buffer of a follower's socket.
medium string replica.selector.class
    Class that chooses the replica to read from.
high int num.replica.fetchers = 1 (at least 1)
    Fetchers for each leader followed.
high int num.replica.alter.log.dirs.threads
    Threads that move replicas between folders.
medium boolean follower.fetch.last.tiered.offset.enable = false
    Whether a new follower starts behind the tiered data.
""")

"""Keys of the node: its identity, its controllers, the metadata log, metrics."""

from typing import Final

from ottla.config.keys import declare

KEYS: Final = declare("""
high int node.id (at least 0)
    Number of this node in its cluster.
high int broker.id = -1
    Older name of node.id.
medium string broker.rack
    Rack of this broker, for placing replicas and choosing the nearest.
high list process.roles (non-empty list of broker, controller)
    What this node does: broker, controller, or both.
high boolean delete.topic.enable = true
    Whether topics can be deleted.
medium boolean controlled.shutdown.enable = true
    Whether leaders move away before the broker stops.
high list controller.listener.names (non-empty list)
    Listeners of the controller.
high list controller.quorum.bootstrap.servers = (addresses)
    Addresses at which the controllers can be found.
high list controller.quorum.voters = (voters)
    The controllers, as id@host:port.
low boolean controller.quorum.auto.join.enable = false
    Whether a new controller joins the voters by itself.
medium int controller.quorum.append.linger.ms = 25 (at least 0)
    Wait for more records before the quorum writes.
high int controller.quorum.election.timeout.ms = 1000 (at least 0)
    Wait in an election before the next one.
high int controller.quorum.election.backoff.max.ms = 1000 (at least 0)
    Longest pause between elections.
high int controller.quorum.fetch.timeout.ms = 2000 (at least 0)
    Silence of the leader before an election.
low int controller.quorum.fetch.max.bytes = 1048576 (at least 1)
    Most metadata bytes in one quorum fetch.
low int controller.quorum.fetch.snapshot.max.bytes = 1048576 (at least 1)
    Most bytes in one piece of a snapshot.
medium int controller.quorum.request.timeout.ms = 2000 (at least 0)
    Time for a request within the quorum.
low int controller.quorum.retry.backoff.ms = 20 (at least 0)
    Pause before a quorum request is repeated.
medium int controller.socket.timeout.ms = 30000
    Time for a request of the controller.
medium internal long controller.performance.sample.period.ms = 60000 (at least 100)
    How often controller times are logged.
medium internal long controller.performance.always.log.threshold.ms = 2000 (at least 0)
    Controller times always logged.
medium int broker.heartbeat.interval.ms = 2000
    How often a broker tells the controller that it lives.
medium int broker.session.timeout.ms = 9000
    Silence after which a broker is fenced.
medium int initial.broker.registration.timeout.ms = 60000
    Time for the first registration.
medium internal long server.max.startup.time.ms = 9223372036854775807 (at least 0)
    Time to start before giving up.
high string metadata.log.dir
    Folder of the metadata log; the first of log.dirs where not set.
high int metadata.log.segment.bytes = 1073741824 (at least 8388608)
    Segment size of the metadata log.
high long metadata.log.segment.ms = 604800000
    Segment age of the metadata log.
high long metadata.log.max.record.bytes.between.snapshots = 20971520 (at least 1)
    Metadata bytes after which a snapshot is taken.
high long metadata.log.max.snapshot.interval.ms = 3600000 (at least 0)
    Longest time between snapshots, 0 for none.
low int metadata.max.idle.interval.ms = 500 (at least 0)
    How often an idle controller writes a no-op record.
high long metadata.max.retention.bytes = 104857600
    Size of metadata log and snapshots before the oldest go.
high long metadata.max.retention.ms = 604800000
    Age of metadata log and snapshots before the oldest go.
low internal long internal.metadata.delete.delay.millis = 60000
    Delay before obsolete metadata files go.
low internal int internal.metadata.log.segment.bytes
    Segment size of the metadata log below its limit.
low internal int internal.metadata.max.batch.size.in.bytes = 8388608
    Largest batch of the metadata log.
high long leader.imbalance.check.interval.seconds = 300 (at least 1)
    How often preferred leaders are restored.
high boolean auto.leader.rebalance.enable = true
    Whether preferred leaders are restored by themselves.
low list config.providers = (list)
    Sources of values written as ${provider:key}.
low int telemetry.max.bytes = 1048576 (at least 1)
    Largest metrics report of a client.
low list metric.reporters = org.apache.kafka.common.metrics.JmxReporter (list)
    Classes told of metrics.
low int metrics.num.samples = 2 (at least 1)
    Samples a metric is made of.
low string metrics.recording.level = INFO
    Finest metrics recorded.
low long metrics.sample.window.ms = 30000 (at least 1)
    Length of a sample.
low list kafka.metrics.reporters = (list)
    Classes told of the older metrics.
low int kafka.metrics.polling.interval.secs = 10 (at least 1)
    How often those classes are told.
""")

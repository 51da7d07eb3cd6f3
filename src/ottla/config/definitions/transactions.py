"""Keys of transactions and idempotent producers."""

from typing import Final

from ottla.config.keys import declare

KEYS: Final = declare("""
high int transaction.max.timeout.ms = 900000 (at least 1)
    Longest timeout a producer may ask for.
high int transaction.state.log.num.partitions = 50 (at least 1)
    Partitions of the transaction topic.
high short transaction.state.log.replication.factor = 3 (at least 1)
    Replicas of the transaction topic; unless set, never more than there are brokers.
high int transaction.state.log.min.isr = 2 (at least 1)
    In-sync replicas the transaction topic needs.
high int transaction.state.log.segment.bytes = 104857600 (at least 1)
    Segment size of the transaction topic.
high int transaction.state.log.load.buffer.size = 5242880 (at least 1)
    Bytes read at once when state is loaded.
low int transaction.abort.timed.out.transaction.cleanup.interval.ms = 10000 (at least 1)
    How often overdue transactions are aborted.
low int transaction.remove.expired.transaction.cleanup.interval.ms = 3600000 (at least 1)
    How often expired ids are removed.
low boolean transaction.partition.verification.enable = true
    Whether a partition asks if it is part of the transaction.
low boolean transaction.two.phase.commit.enable = false
    Whether transactions may be prepared from outside.
high int transactional.id.expiration.ms = 604800000 (at least 1)
    How long an idle transactional id is kept.
high int add.partitions.to.txn.retry.backoff.ms = 20 (at least 1)
    Pause before adding a partition is tried again.
high int add.partitions.to.txn.retry.backoff.max.ms = 100 (at least 0)
    Longest such pause.
low int producer.id.expiration.ms = 86400000 (at least 1)
    How long an idle producer's id is remembered.
low internal int producer.id.expiration.check.interval.ms = 600000 (at least 1)
    How often idle producer ids are looked for.
""")

"""Every broker key of Kafka 4.3, one table per subject. Tables of other resources (`topic`,
`group`, `client_metrics`) are beside them and are imported where they are needed."""

from typing import Final

from ottla.config.definitions import (
    groups,
    log,
    network,
    node,
    quotas,
    remote,
    replication,
    sasl,
    share,
    tls,
    transactions,
)
from ottla.config.keys import ConfigKey

BROKER_KEYS: Final[dict[str, ConfigKey]] = {
    **node.KEYS,
    **network.KEYS,
    **log.KEYS,
    **replication.KEYS,
    **quotas.KEYS,
    **groups.KEYS,
    **share.KEYS,
    **transactions.KEYS,
    **remote.KEYS,
    **tls.KEYS,
    **sasl.KEYS,
}

"""The first contact with a cluster: if nobody answers, the error comes soon and in one sentence.

A client that has been connected waits for absent brokers as long as `default.api.timeout.ms`, so
that a query outlives them. Before the first answer a wrong address is more likely.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ottla.client.errors import (
    ClientError,
    NoBrokerReachable,
    Unreachable,
    show_address,
)
from ottla.client.network.addresses import parse_addresses
from ottla.client.network.backoff import may_pass
from ottla.client.network.cluster import Cluster
from ottla.client.settings.base import settings_from
from ottla.client.settings.common import ClientSettings
from ottla.runtime.os_runtime import OsRuntime, run
from ottla.spark.client_options import admin_options

log = logging.getLogger("ottla.spark")

LIMIT: Final = "default_api_timeout_ms"
PAUSE_S: Final = 0.25


@dataclass(frozen=True)
class Patience:
    refused_s: float = 5.0
    """Wait while every address refuses or has no host: brokers may just be starting."""
    silent_s: float = 15.0
    """Wait while some addresses do not answer."""

    @classmethod
    def of(cls, options: Mapping[str, object], settings: ClientSettings) -> Patience:
        """Return the patience; a call limit that the user set applies here, too."""
        if LIMIT not in options:
            return cls()
        limit_s = settings.default_api_timeout_ms / 1000
        return cls(limit_s, limit_s)


class ClusterMissing(ClientError):
    def __init__(self, servers: str, waited_s: float, failures: list[Exception]) -> None:
        self.failures = failures
        causes = dict.fromkeys(
            one.cause if isinstance(one, Unreachable) else str(one) for one in failures
        )
        super().__init__(
            f"no Kafka broker answers at {servers} ({', '.join(causes) or 'silence'}; tried for "
            f"{waited_s:.0f} s): start one (`ottla start`), or check "
            "kafka.bootstrap.servers; "
            "kafka.default.api.timeout.ms says how long to wait",
        )


async def reach(cluster: Cluster, patience: Patience) -> None:
    """Wait until a broker has answered; raise `ClusterMissing` if none does. Log the error first:
    in Spark's processes it is followed by pages of stack traces."""
    try:
        await _reach(cluster, patience)
    except ClusterMissing as error:
        log.error("%s", error)
        raise


async def _reach(cluster: Cluster, patience: Patience) -> None:
    clock = cluster.runtime.clock
    begin = clock.now()
    failures: list[Exception] = []
    try:
        async with asyncio.timeout(patience.silent_s):
            while True:
                try:
                    await cluster.any_broker()
                    return
                except NoBrokerReachable as error:
                    if not may_pass(error):
                        raise
                    failures = error.failures
                is_refused = all(map(_is_refused, failures))
                if is_refused and clock.now() + PAUSE_S - begin > patience.refused_s:
                    break
                await asyncio.sleep(PAUSE_S)
    except TimeoutError:
        pass
    servers = parse_addresses(cluster.settings.bootstrap_servers)
    names = ", ".join(map(show_address, servers))
    raise ClusterMissing(names, clock.now() - begin, failures)


def _is_refused(failure: Exception) -> bool:
    """True if the address was refused, not just silent."""
    return isinstance(failure.__cause__, OSError) and not isinstance(
        failure.__cause__, TimeoutError
    )


def check_reachable(options: Mapping[str, str]) -> None:
    """Check before anything else is begun; `options` are Spark's, with
    `kafka.bootstrap.servers`."""
    chosen = admin_options(options)
    settings = settings_from(ClientSettings, chosen)

    async def main(runtime: OsRuntime) -> None:
        cluster = Cluster.of(settings, runtime)
        try:
            await _reach(cluster, Patience.of(chosen, settings))
        finally:
            cluster.close()

    run(main)

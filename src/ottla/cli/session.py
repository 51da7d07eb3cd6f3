"""Running a piece of asynchronous work against a cluster from a command."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import typer

from ottla.cli.options import TIMEOUT_MS_DEFAULT
from ottla.client.errors import BadAddress
from ottla.client.network.addresses import parse_addresses
from ottla.client.network.cluster import Cluster
from ottla.runtime.os_runtime import OsRuntime, run

T = TypeVar("T")


def with_cluster(
    bootstrap: str,
    work: Callable[[Cluster], Awaitable[T]],
    *,
    timeout_ms: int = TIMEOUT_MS_DEFAULT,
) -> T:
    """The result of `work`, given a cluster that is connected for as long as it runs."""
    try:
        addresses = parse_addresses(bootstrap)
    except BadAddress as error:
        raise typer.BadParameter(str(error), param_hint="--bootstrap") from error

    async def main(runtime: OsRuntime) -> T:
        limits = {"request_timeout_ms": timeout_ms, "retry_within_ms": timeout_ms}
        async with Cluster(runtime, addresses, client_id="ottla-cli", **limits) as cluster:
            return await work(cluster)

    return run(main)

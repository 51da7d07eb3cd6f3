"""Running a piece of asynchronous work against a cluster from a command."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import typer

from ottla.cli.options import TIMEOUT_MS_DEFAULT
from ottla.client.admin.admin import Admin
from ottla.client.errors import BadAddress
from ottla.client.network.addresses import parse_addresses
from ottla.client.network.cluster import Cluster
from ottla.client.network.controllers import Controllers
from ottla.client.settings.common import ClientSettings
from ottla.runtime.os_runtime import OsRuntime, run

T = TypeVar("T")


def with_admin(
    bootstrap: str,
    work: Callable[[Admin], Awaitable[T]],
    *,
    timeout_ms: int = TIMEOUT_MS_DEFAULT,
    controllers: str | None = None,
) -> T:
    """The result of `work`, given an admin that is connected for as long as it runs."""
    return with_cluster(
        bootstrap,
        lambda cluster: work(Admin.over(cluster)),
        timeout_ms=timeout_ms,
        controllers=controllers,
    )


def with_cluster(
    bootstrap: str,
    work: Callable[[Cluster], Awaitable[T]],
    *,
    timeout_ms: int = TIMEOUT_MS_DEFAULT,
    controllers: str | None = None,
) -> T:
    """The result of `work`, given a cluster that is connected for as long as it runs. Where
    `controllers` are named, it is made of them, and `bootstrap` does not count."""
    addresses = bootstrap if controllers is None else controllers
    try:
        parse_addresses(addresses)
    except BadAddress as error:
        hint = "--bootstrap" if controllers is None else "--bootstrap-controller"
        raise typer.BadParameter(str(error), param_hint=hint) from error

    async def main(runtime: OsRuntime) -> T:
        settings = ClientSettings(
            bootstrap_servers=addresses,
            client_id="ottla-cli",
            request_timeout_ms=timeout_ms,
            default_api_timeout_ms=timeout_ms,
        )
        kind = Cluster if controllers is None else Controllers
        async with kind.of(settings, runtime) as cluster:
            return await work(cluster)

    return run(main)

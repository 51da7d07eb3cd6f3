"""Runs asynchronous work against a cluster from a command."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import typer

from ottla.cli.client_warnings import showing_client_warnings
from ottla.cli.connection_options import given_options
from ottla.cli.options import TIMEOUT_MS_DEFAULT
from ottla.client.admin.admin import Admin
from ottla.client.errors import BadAddress
from ottla.client.network.addresses import parse_addresses
from ottla.client.network.cluster import Cluster
from ottla.client.network.controllers import Controllers
from ottla.client.settings.base import settings_from
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
    """Return the result of `work`, given an admin that is connected while it runs."""
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
    """Return the result of `work`, given a cluster that is connected while it runs. If
    `controllers` are given, the connection goes to them, and `bootstrap` is ignored."""
    addresses = bootstrap if controllers is None else controllers
    try:
        parse_addresses(addresses)
    except BadAddress as error:
        hint = "--bootstrap" if controllers is None else "--bootstrap-controller"
        raise typer.BadParameter(str(error), param_hint=hint) from error

    options = {
        "client_id": "ottla-cli",
        "request_timeout_ms": timeout_ms,
        "default_api_timeout_ms": timeout_ms,
        **given_options(ClientSettings),
        "bootstrap_servers": addresses,
    }
    settings = settings_from(ClientSettings, options)

    async def main(runtime: OsRuntime) -> T:
        kind = Cluster if controllers is None else Controllers
        with showing_client_warnings() as warnings:
            async with kind.of(settings, runtime) as cluster:
                warnings.connected()
                return await work(cluster)

    return run(main)

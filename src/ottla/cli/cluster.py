"""`ottla cluster`: who is there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.cli.options import (
    BOOTSTRAP_DEFAULT,
    TIMEOUT_MS_DEFAULT,
    Bootstrap,
    Json,
    TimeoutMs,
    new_app,
)

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.client.admin.cluster_admin import ServedApi

app = new_app()


@app.command()
def cluster(
    apis: Annotated[
        bool, typer.Option("--apis", help="Show which versions of each request are served, too.")
    ] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout_ms: TimeoutMs = TIMEOUT_MS_DEFAULT,
    as_json: Json = False,
) -> None:
    """Show the cluster's id, its brokers and the controller.

    Examples:

    - `ottla cluster`

    - `ottla cluster --bootstrap broker.example:9092 --json`
    """
    from ottla.cli.output import print_fields, print_json, print_table
    from ottla.cli.session import with_admin

    async def work(admin: Admin) -> dict[str, Any]:
        there = await admin.describe_cluster()
        found: dict[str, Any] = {
            "cluster_id": there.cluster_id,
            "controller": there.controller,
            "brokers": [
                {
                    "id": broker.node_id,
                    "host": broker.host,
                    "port": broker.port,
                    "rack": broker.rack,
                    "fenced": broker.is_fenced,
                }
                for _, broker in sorted(there.brokers.items())
            ],
        }
        if apis:
            found["apis"] = [_api(one) for one in await admin.describe_apis()]
        return found

    found = with_admin(bootstrap, work, timeout_ms=timeout_ms)
    if as_json:
        print_json(found)
        return
    print_fields([("cluster id", found["cluster_id"]), ("controller", found["controller"])])
    columns = ("id", "host", "port", "rack", "fenced")
    print_table(columns, [[broker[name] for name in columns] for broker in found["brokers"]])
    if apis:
        served = [(api["key"], api["api"], api["min"], api["max"]) for api in found["apis"]]
        print_table(("key", "api", "min", "max"), served)


def _api(one: ServedApi) -> dict[str, Any]:
    return {"key": one.key, "api": one.name, "min": one.min_version, "max": one.max_version}

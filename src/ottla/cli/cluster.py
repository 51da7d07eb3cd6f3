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
    from ottla.client.network.cluster import Cluster

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
    from ottla.cli.session import with_cluster
    from ottla.client.admin.admin import Admin

    async def work(cluster: Cluster) -> dict[str, Any]:
        view = await Admin(cluster).describe_cluster()
        found: dict[str, Any] = {
            "cluster_id": view.cluster_id,
            "controller": view.controller_id if view.controller_id >= 0 else None,
            "brokers": [
                {
                    "id": broker.node_id,
                    "host": broker.host,
                    "port": broker.port,
                    "rack": broker.rack,
                    "fenced": broker.is_fenced,
                }
                for _, broker in sorted(view.brokers.items())
            ],
        }
        if apis:
            found["apis"] = await _apis(cluster)
        return found

    found = with_cluster(bootstrap, work, timeout_ms=timeout_ms)
    if as_json:
        print_json(found)
        return
    print_fields([("cluster id", found["cluster_id"]), ("controller", found["controller"])])
    columns = ("id", "host", "port", "rack", "fenced")
    print_table(columns, [[broker[name] for name in columns] for broker in found["brokers"]])
    if apis:
        served = [(api["key"], api["api"], api["min"], api["max"]) for api in found["apis"]]
        print_table(("key", "api", "min", "max"), served)


async def _apis(cluster: Cluster) -> list[dict[str, Any]]:
    from ottla.protocol.apis import APIS

    connection = await cluster.any_broker()
    return [
        {"key": key, "api": APIS[key].name if key in APIS else "?", "min": low, "max": high}
        for key, (low, high) in sorted(connection.versions.served.items())
    ]

"""`ottla cluster`: the nodes of a cluster and their state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.cli.cluster.nodes import BrokerId, add_node, retire
from ottla.cli.consent import want_consent
from ottla.cli.family import refuse_options_before_subcommand
from ottla.cli.options import (
    BOOTSTRAP_DEFAULT,
    TIMEOUT_MS_DEFAULT,
    Bootstrap,
    Json,
    TimeoutMs,
    Yes,
    new_app,
)

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.client.admin.cluster_admin import DescribedCluster, ServedApi
    from ottla.client.network.cluster import Cluster

app = new_app()
app.command("add-node")(add_node)
app.command()(retire)


@app.callback(invoke_without_command=True)
def cluster(
    context: typer.Context,
    apis: Annotated[
        bool, typer.Option("--apis", help="Show which versions of each request are served, too.")
    ] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout_ms: TimeoutMs = TIMEOUT_MS_DEFAULT,
    as_json: Json = False,
) -> None:
    """Show the cluster's id, its brokers and the leading controller.

    Examples:

    - `ottla cluster`

    - `ottla cluster --bootstrap broker.example:9092 --json`

    - `ottla cluster status`
    """
    if context.invoked_subcommand is not None:
        refuse_options_before_subcommand(context)
        return
    from ottla.cli.output import print_fields, print_json, print_table
    from ottla.cli.session import with_cluster
    from ottla.client.admin.admin import Admin

    async def work(cluster: Cluster) -> dict[str, Any]:
        admin = Admin.over(cluster)
        there = await admin.describe_cluster()
        found: dict[str, Any] = {
            "cluster_id": there.cluster_id,
            "controller": await _controller(cluster, there),
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

    found = with_cluster(bootstrap, work, timeout_ms=timeout_ms)
    if as_json:
        print_json(found)
        return
    print_fields([("cluster id", found["cluster_id"]), ("leading controller", found["controller"])])
    columns = ("id", "host", "port", "rack", "fenced")
    print_table(columns, [[broker[name] for name in columns] for broker in found["brokers"]])
    if apis:
        served = [(api["key"], api["api"], api["min"], api["max"]) for api in found["apis"]]
        print_table(("key", "api", "min", "max"), served)


async def _controller(cluster: Cluster, there: DescribedCluster) -> int | None:
    """Return the leading controller; an older cluster names it only in its metadata."""
    from ottla.cli.cluster.quorum_views import leading_controller
    from ottla.client.errors import UnsupportedVersion

    try:
        return await leading_controller(cluster)
    except UnsupportedVersion:
        return there.controller


def _api(one: ServedApi) -> dict[str, Any]:
    return {"key": one.key, "api": one.name, "min": one.min_version, "max": one.max_version}


@app.command()
def status(
    partitions: Annotated[
        bool, typer.Option("--partitions", help="Show all partitions in need, however many.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Exit with 1 if anything is wrong, for scripts.")
    ] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout_ms: TimeoutMs = TIMEOUT_MS_DEFAULT,
    as_json: Json = False,
) -> None:
    """Show who leads, who lags, who is fenced and why, and which partitions need help.

    Exits with 1 if no majority of the controllers is available.

    Examples:

    - `ottla cluster status`

    - `ottla cluster status --check --json`
    """
    from ottla.cli.cluster.report import print_report
    from ottla.cli.cluster.status import as_json as report_as_json
    from ottla.cli.cluster.status import take_stock
    from ottla.cli.output import print_json
    from ottla.cli.session import with_cluster

    found = with_cluster(bootstrap, take_stock, timeout_ms=timeout_ms)
    if as_json:
        print_json(report_as_json(found))
    else:
        print_report(found, all_partitions=partitions)
    if found.views or (check and found.problems):
        raise typer.Exit(1)


@app.command()
def unregister(
    broker: BrokerId,
    force: Annotated[
        bool, typer.Option("--force", help="Even if it still runs, or keeps replicas.")
    ] = False,
    yes: Yes = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout_ms: TimeoutMs = TIMEOUT_MS_DEFAULT,
    as_json: Json = False,
) -> None:
    """Forget a broker that was stopped for good; move its replicas to others first. Asks first.

    A broker that still runs would register again. It is refused, as is one that still has replicas,
    unless --force is given.

    Example:

    - `ottla cluster unregister 1`
    """
    from ottla.cli.output import deed
    from ottla.cli.session import with_admin

    want_consent(f"Forget broker {broker}?", yes)

    async def work(admin: Admin) -> None:
        if not force and (objection := await _objection(admin, broker)):
            raise typer.BadParameter(f"{objection}; --force does it all the same")
        await admin.unregister_broker(broker)

    with_admin(bootstrap, work, timeout_ms=timeout_ms)
    deed(as_json, {"unregistered": broker}, f"Broker {broker} is forgotten.")


async def _objection(admin: Admin, broker: int) -> str | None:
    """Return why a broker should not be forgotten now, or None."""
    from ottla.cli.cluster.nodes import still_keeps

    there = (await admin.describe_cluster()).brokers.get(broker)
    if there is not None and not there.is_fenced:
        return f"broker {broker} still runs and would register again: stop it first"
    return await still_keeps(admin, broker)

"""`ottla configs`: settings of topics, brokers, groups and client metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cli.options import (
    BOOTSTRAP_DEFAULT,
    TIMEOUT_MS_DEFAULT,
    Bootstrap,
    Json,
    TimeoutMs,
    new_app,
    parse_pairs,
)

if TYPE_CHECKING:
    from ottla.client.admin.configs import ConfigChange, ConfigEntry, ConfigResource

app = new_app("Show and change settings of topics, brokers, groups and client metrics.")

OfTopic = Annotated[str | None, typer.Option("--topic", metavar="NAME", help="Of a topic.")]
OfBroker = Annotated[int | None, typer.Option("--broker", metavar="ID", help="Of one broker.")]
OfCluster = Annotated[
    bool, typer.Option("--cluster-default", help="The default for all brokers of the cluster.")
]
OfLogger = Annotated[
    int | None, typer.Option("--broker-logger", metavar="ID", help="The log levels of one broker.")
]
OfGroup = Annotated[str | None, typer.Option("--group", metavar="NAME", help="Of a group.")]
OfMetrics = Annotated[
    str | None, typer.Option("--client-metrics", metavar="NAME", help="Of a metrics subscription.")
]


def _resource(
    topic: str | None,
    broker: int | None,
    cluster_default: bool,
    broker_logger: int | None,
    group: str | None,
    client_metrics: str | None,
) -> ConfigResource:
    """Return the one resource that was named; naming none or two is a usage error."""
    from ottla.client.admin.configs import ConfigResource, ResourceType

    named = [
        (ResourceType.TOPIC, topic),
        (ResourceType.BROKER, None if broker is None else str(broker)),
        (ResourceType.BROKER, "" if cluster_default else None),
        (ResourceType.BROKER_LOGGER, None if broker_logger is None else str(broker_logger)),
        (ResourceType.GROUP, group),
        (ResourceType.CLIENT_METRICS, client_metrics),
    ]
    chosen = [ConfigResource(kind, name) for kind, name in named if name is not None]
    if len(chosen) != 1:
        raise typer.BadParameter(
            "name exactly one of --topic, --broker, --cluster-default, --broker-logger, --group, "
            "--client-metrics"
        )
    return chosen[0]


@app.command()
def describe(
    topic: OfTopic = None,
    broker: OfBroker = None,
    cluster_default: OfCluster = False,
    broker_logger: OfLogger = None,
    group: OfGroup = None,
    client_metrics: OfMetrics = None,
    everything: Annotated[
        bool, typer.Option("--all", "-a", help="Show values nobody has changed, too.")
    ] = False,
    docs: Annotated[bool, typer.Option("--docs", help="Show what each setting means.")] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout_ms: TimeoutMs = TIMEOUT_MS_DEFAULT,
    as_json: Json = False,
) -> None:
    """Show settings and where each value comes from; without --all only changed ones.

    Examples:

    - `ottla configs describe --topic orders --all`

    - `ottla configs describe --broker 1 --json`
    """
    from ottla.cli.output import print_json, print_table
    from ottla.cli.session import with_admin
    from ottla.client.admin.configs import ConfigSource

    resource = _resource(topic, broker, cluster_default, broker_logger, group, client_metrics)
    entries = with_admin(
        bootstrap,
        lambda admin: admin.describe_config(resource, documentation=docs),
        timeout_ms=timeout_ms,
    )
    not_dynamic = (ConfigSource.DEFAULT, ConfigSource.STATIC_BROKER)
    shown = [entry for entry in entries if everything or entry.source not in not_dynamic]
    if as_json:
        print_json([_as_json(entry, docs) for entry in shown])
        return
    columns = ["setting", "value", "source", "read-only"] + (["meaning"] if docs else [])
    print_table(
        columns,
        [
            (
                entry.name,
                "(hidden)" if entry.sensitive else entry.value,
                _source(entry),
                entry.read_only,
                *([entry.documentation] if docs else []),
            )
            for entry in shown
        ],
    )


@app.command()
def alter(
    topic: OfTopic = None,
    broker: OfBroker = None,
    cluster_default: OfCluster = False,
    broker_logger: OfLogger = None,
    group: OfGroup = None,
    client_metrics: OfMetrics = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Set a value.")
    ] = None,
    delete: Annotated[
        list[str] | None, typer.Option("--delete", metavar="KEY", help="Back to the default.")
    ] = None,
    append: Annotated[
        list[str] | None, typer.Option("--append", metavar="KEY=VALUE", help="Add to a list.")
    ] = None,
    subtract: Annotated[
        list[str] | None,
        typer.Option("--subtract", metavar="KEY=VALUE", help="Remove from a list."),
    ] = None,
    validate_only: Annotated[
        bool, typer.Option("--validate-only", help="Check the request, change nothing.")
    ] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout_ms: TimeoutMs = TIMEOUT_MS_DEFAULT,
    as_json: Json = False,
) -> None:
    """Change single settings; all others stay as they are.

    Examples:

    - `ottla configs alter --topic orders --set retention.ms=3600000 --delete segment.bytes`

    - `ottla configs alter --topic orders --append cleanup.policy=compact`

    - `ottla configs alter --cluster-default --set log.retention.ms=86400000`
    """
    from ottla.cli.output import deed
    from ottla.cli.session import with_admin

    resource = _resource(topic, broker, cluster_default, broker_logger, group, client_metrics)
    changes = _changes(set_ or [], delete or [], append or [], subtract or [])
    with_admin(
        bootstrap,
        lambda admin: admin.alter_config(resource, changes, validate_only=validate_only),
        timeout_ms=timeout_ms,
    )
    kind, name = resource
    what = f"{kind.name.lower().replace('_', ' ')} {name or 'defaults'}"
    verb = "could be changed" if validate_only else "changed"
    deed(
        as_json,
        {"resource_type": kind.name.lower(), "resource_name": name, "altered": not validate_only},
        f"{len(changes)} setting(s) of {what} {verb}.",
    )


def _changes(
    set_: list[str], delete: list[str], append: list[str], subtract: list[str]
) -> list[ConfigChange]:
    from ottla.client.admin.configs import AlterOperation, ConfigChange

    changes: list[ConfigChange] = []
    for operation, texts, option in (
        (AlterOperation.SET, set_, "--set"),
        (AlterOperation.APPEND, append, "--append"),
        (AlterOperation.SUBTRACT, subtract, "--subtract"),
    ):
        changes += [ConfigChange(operation, *pair) for pair in parse_pairs(texts, option).items()]
    changes += [ConfigChange(AlterOperation.DELETE, key) for key in delete]
    if not changes:
        raise typer.BadParameter("nothing to change: give --set, --delete, --append or --subtract")
    return changes


def _source(entry: ConfigEntry) -> str:
    return entry.source.name.lower().replace("_", "-")


def _as_json(entry: ConfigEntry, docs: bool) -> dict[str, object]:
    value: dict[str, object] = {
        "name": entry.name,
        "value": entry.value,
        "source": _source(entry),
        "default": entry.is_default,
        "read_only": entry.read_only,
        "sensitive": entry.sensitive,
    }
    if docs:
        value["documentation"] = entry.documentation
    return value

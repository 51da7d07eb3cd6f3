"""`ottla log-dirs`: shows how much data each broker has and where, and moves it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.cli.family import refuse_options_before_subcommand
from ottla.cli.logs.log_dirs_move import move
from ottla.cli.options import (
    BOOTSTRAP_DEFAULT,
    TIMEOUT_MS_DEFAULT,
    Bootstrap,
    Json,
    TimeoutMs,
    new_app,
)

if TYPE_CHECKING:
    from ottla.client.admin.log_dirs import LogDir, Replica

app = new_app()
app.command("move")(move)


@app.callback(invoke_without_command=True)
def log_dirs(
    context: typer.Context,
    brokers: Annotated[
        list[int] | None, typer.Option("--broker", metavar="ID", help="Only these brokers.")
    ] = None,
    topics: Annotated[
        list[str] | None, typer.Option("--topic", metavar="NAME", help="Only these topics.")
    ] = None,
    partitions: Annotated[
        bool, typer.Option("--partitions", help="A row for each partition, too.")
    ] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout_ms: TimeoutMs = TIMEOUT_MS_DEFAULT,
    as_json: Json = False,
) -> None:
    """Show the data folders of brokers, their free space, and the size of topics.

    Examples:

    - `ottla log-dirs`

    - `ottla log-dirs --topic orders`

    - `ottla log-dirs move orders:0 --to /disk2/kafka`
    """
    if context.invoked_subcommand is not None:
        refuse_options_before_subcommand(context)
        return
    from ottla.cli.output import human_bytes, print_json, print_table
    from ottla.cli.session import with_admin

    def wanted(replica: Replica) -> bool:
        return not topics or replica.topic in topics

    found = with_admin(
        bootstrap, lambda admin: admin.describe_log_dirs(brokers or None), timeout_ms=timeout_ms
    )
    shown = [(entry, [r for r in entry.replicas if wanted(r)]) for entry in found]
    if as_json:
        print_json([_as_json(entry, replicas) for entry, replicas in shown])
        return
    print_table(
        ("broker", "folder", "partitions", "size", "free", "error"),
        [
            (
                entry.broker,
                entry.path,
                len(replicas),
                human_bytes(sum(replica.size_bytes for replica in replicas)),
                None if entry.usable_bytes is None else human_bytes(entry.usable_bytes),
                entry.error.code.name if entry.error else None,
            )
            for entry, replicas in shown
        ],
    )
    if partitions or topics:
        _print_partitions(shown)


def _print_partitions(shown: list[tuple[LogDir, list[Replica]]]) -> None:
    from ottla.cli.output import print_table

    print_table(
        ("broker", "folder", "topic", "partition", "bytes", "lag", "moving"),
        [
            (
                *(entry.broker, entry.path, r.topic, r.partition),
                *(r.size_bytes, r.offset_lag, r.is_future),
            )
            for entry, replicas in shown
            for r in replicas
        ],
    )


def _as_json(entry: LogDir, replicas: list[Replica]) -> dict[str, Any]:
    return {
        "broker": entry.broker,
        "path": entry.path,
        "error": entry.error.code.name if entry.error else None,
        "total_bytes": entry.total_bytes,
        "usable_bytes": entry.usable_bytes,
        "partitions": [
            {
                "topic": replica.topic,
                "partition": replica.partition,
                "size_bytes": replica.size_bytes,
                "offset_lag": replica.offset_lag,
                "is_future": replica.is_future,
            }
            for replica in replicas
        ],
    }

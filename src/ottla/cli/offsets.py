"""`ottla offsets`: shows where partitions begin and end, and the offset of a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.cli import moments
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

app = new_app()


@app.command()
def offsets(
    topics: Annotated[list[str] | None, typer.Argument(metavar="TOPIC")] = None,
    at: Annotated[
        str | None, typer.Option("--at", help=f"One more column: {moments.HELP}.")
    ] = None,
    partition: Annotated[
        list[str] | None, typer.Option("--partition", "-p", help="Which partitions: 0,2 or 0-3.")
    ] = None,
    committed: Annotated[
        bool, typer.Option("--committed", help="Let latest be the end of finished transactions.")
    ] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout_ms: TimeoutMs = TIMEOUT_MS_DEFAULT,
    as_json: Json = False,
) -> None:
    """Show the first offset of each partition, the one after its last record, and the difference.

    Examples:

    - `ottla offsets orders`

    - `ottla offsets orders --at 15m`

    - `ottla offsets orders --partition 0 --at 2026-01-31T12:00:00Z --json`
    """
    from ottla.cli.names import is_internal
    from ottla.cli.output import print_json, print_table
    from ottla.cli.session import with_admin

    moment = moments.parse_moment(at, moments.now_ms(), "--at") if at else None
    chosen = moments.parse_partitions(partition)

    async def work(admin: Admin) -> list[dict[str, Any]]:
        names = topics or [one for one in await admin.list_topics() if not is_internal(one)]
        return [
            row
            for name in sorted(names)
            for row in await _rows(admin, name, chosen, moment, int(committed))
        ]

    rows = with_admin(bootstrap, work, timeout_ms=timeout_ms)
    if as_json:
        print_json(rows)
        return
    columns = ["topic", "partition", "earliest", "latest", "records"] + (["at"] if moment else [])
    print_table(columns, [[row[column] for column in columns] for row in rows])


async def _rows(
    admin: Admin,
    name: str,
    chosen: list[int] | None,
    moment: moments.Moment | None,
    isolation: int,
) -> list[dict[str, Any]]:
    topic = await admin.describe_topic(name)
    indexes = chosen if chosen is not None else [p.index for p in topic.partitions]
    earliest = await moments.resolve(admin, name, indexes, moments.Moment("earliest"))
    latest = await moments.resolve(
        admin, name, indexes, moments.Moment("latest"), isolation=isolation
    )
    found = (
        await moments.resolve(admin, name, indexes, moment, isolation=isolation) if moment else {}
    )
    return [
        {
            "topic": name,
            "partition": index,
            "earliest": earliest[index],
            "latest": latest[index],
            "records": latest[index] - earliest[index],
            **({"at": found[index]} if moment else {}),
        }
        for index in indexes
    ]

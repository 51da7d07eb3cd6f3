"""`ottla topics elect-leaders`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cli.consent import want_consent
from ottla.cli.options import (
    BOOTSTRAP_DEFAULT,
    TIMEOUT_MS_DEFAULT,
    Bootstrap,
    Json,
    TimeoutMs,
    Yes,
)

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.client.values import TopicPartition
    from ottla.protocol.errors import KafkaError


def elect_leaders(
    topics: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TOPIC[:PARTITIONS]]...", show_default=False, help="orders, or orders:0,2-4."
        ),
    ] = None,
    unclean: Annotated[
        bool,
        typer.Option(
            "--unclean",
            help="Let any replica lead where none in sync is left; what it does not have is lost.",
        ),
    ] = False,
    yes: Yes = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout_ms: TimeoutMs = TIMEOUT_MS_DEFAULT,
    as_json: Json = False,
) -> None:
    """Elect the first replica of partitions as leader again; of all that need it, if none is named.

    Examples:

    - `ottla topics elect-leaders`

    - `ottla topics elect-leaders orders:0,2-4`

    - `ottla topics elect-leaders orders:3 --unclean`
    """
    from ottla.cli.output import print_json, print_table
    from ottla.cli.session import with_admin
    from ottla.cli.topics.scopes import parse_scope, partitions_of
    from ottla.protocol.errors import ErrorCode

    if unclean and not topics:
        raise typer.BadParameter("an unclean election loses data: name the partitions")
    scope = parse_scope(topics, "TOPIC") if topics else None
    if unclean:
        question = (
            f"Let any replica of {', '.join(topics or ())} lead, and lose what it does not have?"
        )
        want_consent(question, yes)

    async def work(admin: Admin) -> dict[TopicPartition, KafkaError | None]:
        wanted = None if scope is None else await partitions_of(admin, scope)
        return await admin.elect_leaders(
            wanted, election_type="unclean" if unclean else "preferred"
        )

    outcome = with_admin(bootstrap, work, timeout_ms=timeout_ms)
    needless = ErrorCode.ELECTION_NOT_NEEDED
    rows = [
        {
            "topic": one.topic,
            "partition": one.partition,
            "elected": error is None,
            "error": None if error is None or error.code is needless else error.code.name,
            "message": None if error is None else error.message,
        }
        for one, error in sorted(outcome.items())
    ]
    if as_json:
        print_json(rows)
    else:
        columns = ("topic", "partition", "elected", "error", "message")
        print_table(columns, [[row[name] for name in columns] for row in rows])
    if any(row["error"] for row in rows):
        raise typer.Exit(1)

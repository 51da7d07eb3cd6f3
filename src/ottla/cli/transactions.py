"""`ottla transactions`: shows transactions, finds hanging ones, and aborts them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.cli.consent import want_consent
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
    from ottla.client.admin.transaction_values import DescribedTransaction, FencedProducer
    from ottla.client.values import TopicPartition
    from ottla.protocol.errors import KafkaError

app = new_app("Show transactions, find those that hang, and end them.")


@app.command("list")
def list_(
    states: Annotated[
        list[str] | None,
        typer.Option("--state", metavar="NAME", help="Only in these: Ongoing, CompleteCommit, ..."),
    ] = None,
    producers: Annotated[
        list[int] | None, typer.Option("--producer-id", metavar="ID", help="Only of these.")
    ] = None,
    open_for_ms: Annotated[
        int | None, typer.Option("--longer-than-ms", min=0, help="Only begun longer ago.")
    ] = None,
    pattern: Annotated[
        str | None,
        typer.Option("--pattern", help="Only ids that match this expression."),
    ] = None,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout_ms: TimeoutMs = TIMEOUT_MS_DEFAULT,
    as_json: Json = False,
) -> None:
    """List transactional ids with their producer and state.

    Examples:

    - `ottla transactions list`

    - `ottla transactions list --state Ongoing --longer-than-ms 60000`
    """
    from ottla.cli.output import print_json, print_table
    from ottla.cli.session import with_admin

    found = with_admin(
        bootstrap,
        lambda admin: admin.list_transactions(
            states=states or (),
            producer_ids=producers or (),
            open_for_ms=open_for_ms,
            pattern=pattern,
        ),
        timeout_ms=timeout_ms,
    )
    if as_json:
        print_json([one._asdict() for one in found])
        return
    print_table(("transactional id", "coordinator", "producer id", "state"), found)


@app.command()
def describe(
    transactional_ids: Annotated[list[str], typer.Argument(metavar="TRANSACTIONAL_ID")],
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout_ms: TimeoutMs = TIMEOUT_MS_DEFAULT,
    as_json: Json = False,
) -> None:
    """Show what the coordinator knows about transactional ids, with the partitions that take part.

    If an id is unknown, the others are still shown.

    Example:

    - `ottla transactions describe copy-orders-1`
    """
    from ottla.cli.output import print_json, print_note
    from ottla.cli.session import with_admin
    from ottla.protocol.errors import KafkaError

    found = with_admin(
        bootstrap,
        lambda admin: admin.describe_transactions(transactional_ids),
        timeout_ms=timeout_ms,
    )
    failed = {name: one for name, one in found.items() if isinstance(one, KafkaError)}
    if as_json:
        print_json([_described(name, one) for name, one in found.items()])
    elif len(failed) < len(found):
        _show([one for one in found.values() if not isinstance(one, KafkaError)])
    for error in failed.values():
        print_note(f"ottla: {error}")
    if failed:
        raise typer.Exit(1)


def _show(found: list[DescribedTransaction]) -> None:
    from ottla.cli.output import print_table

    print_table(
        (
            *("transactional id", "coordinator", "state", "producer id", "epoch", "timeout ms"),
            *("begun", "partitions"),
        ),
        [
            (
                one.transactional_id,
                one.coordinator,
                one.state,
                one.producer_id,
                one.producer_epoch,
                one.timeout_ms,
                _moment(one.start_ms),
                [str(partition) for partition in one.partitions] or None,
            )
            for one in found
        ],
    )


@app.command()
def abort(
    transactional_id: Annotated[
        str | None,
        typer.Argument(metavar="[TRANSACTIONAL_ID]", help="Abort what this id has open."),
    ] = None,
    topic: Annotated[
        str | None, typer.Option("--topic", metavar="NAME", help="Of a transaction that hangs.")
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", min=0, help="Of the topic.")
    ] = None,
    start_offset: Annotated[
        int | None, typer.Option("--start-offset", min=0, help="Where the transaction begins.")
    ] = None,
    producer_id: Annotated[
        int | None, typer.Option("--producer-id", help="Instead of the offset, where it is known.")
    ] = None,
    producer_epoch: Annotated[
        int | None, typer.Option("--producer-epoch", help="Of the producer, with --producer-id.")
    ] = None,
    coordinator_epoch: Annotated[
        int,
        typer.Option("--coordinator-epoch", help="Of the marker, with --producer-id."),
    ] = 0,
    yes: Yes = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout_ms: TimeoutMs = TIMEOUT_MS_DEFAULT,
    as_json: Json = False,
) -> None:
    """Abort a transaction: that of an id, or one that hangs in a partition. Asks first.

    By its id, the coordinator aborts it and fences its producers, as if a new one had started. In a
    partition, an abort marker is written without the coordinator: use this only for a transaction
    that `find-hanging` shows.

    Examples:

    - `ottla transactions abort copy-orders-1`

    - `ottla transactions abort --topic orders --partition 3 --start-offset 18212`
    """
    from ottla.cli.output import deed
    from ottla.cli.session import with_admin
    from ottla.client.values import TopicPartition

    if (transactional_id is None) == (topic is None):
        raise typer.BadParameter("name either a TRANSACTIONAL_ID or --topic and --partition")
    if transactional_id is not None:
        want_consent(f"Abort what {transactional_id} has open, and shut its producers out?", yes)
        _abort_by_id(transactional_id, bootstrap, timeout_ms, as_json=as_json)
        return
    by_name = producer_id is not None and producer_epoch is not None
    if partition is None or by_name == (start_offset is not None):
        raise typer.BadParameter(
            "a transaction in a partition is named by --topic, --partition and either "
            "--start-offset, or --producer-id with --producer-epoch"
        )
    assert topic is not None
    where = TopicPartition(topic, partition)
    want_consent(f"Write an abort marker to {where}?", yes)

    async def work(admin: Admin) -> tuple[int, int]:
        who = (producer_id or 0, producer_epoch or 0, coordinator_epoch)
        if start_offset is not None:
            who = await _producer_at(admin, where, start_offset)
        await admin.abort_transaction(where, *who)
        return who[:2]

    who = with_admin(bootstrap, work, timeout_ms=timeout_ms)
    result = {**where._asdict(), "producer_id": who[0], "producer_epoch": who[1]}
    deed(as_json, result, f"The transaction of producer {who[0]}/{who[1]} in {where} is aborted.")


def _abort_by_id(name: str, bootstrap: str, timeout_ms: int, *, as_json: bool) -> None:
    from ottla.cli.output import deed
    from ottla.cli.session import with_admin
    from ottla.client.network.coordinators import value_of

    async def fence(admin: Admin) -> FencedProducer:
        # An id that nobody used is most likely a typing error: refuse it.
        await admin.describe_transaction(name)
        return value_of(await admin.fence_producers([name]), name)

    fenced = with_admin(bootstrap, fence, timeout_ms=timeout_ms)
    result = {
        "transactional_id": name,
        "producer_id": fenced.producer_id,
        "epoch": fenced.producer_epoch,
    }
    deed(as_json, result, f"{name} has no open transaction now; its producers are shut out.")


async def _producer_at(admin: Admin, where: TopicPartition, offset: int) -> tuple[int, int, int]:
    from ottla.client.network.leaders import all_or_raise

    producers = all_or_raise(await admin.describe_producers([where]))[where]
    for found in producers:
        if found.open_since_offset == offset:
            # Use the coordinator epoch seen here: epoch 0 is refused where a later one was seen.
            return found.producer_id, found.producer_epoch, max(found.coordinator_epoch, 0)
    open_at = sorted(p.open_since_offset for p in producers if p.open_since_offset is not None)
    known = ", ".join(str(one) for one in open_at) or "none"
    raise typer.BadParameter(
        f"no transaction that is open in {where} begins at {offset}; there: {known}",
        param_hint="--start-offset",
    )


@app.command("find-hanging")
def find_hanging(
    topics: Annotated[
        list[str] | None, typer.Option("--topic", metavar="NAME", help="Look only in these.")
    ] = None,
    brokers: Annotated[
        list[int] | None, typer.Option("--broker", metavar="ID", help="Led by these brokers only.")
    ] = None,
    idle_ms: Annotated[
        int,
        typer.Option(
            "--idle-ms", min=0, help="Without news for so long; more than any transaction may take."
        ),
    ] = 15 * 60_000,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout_ms: TimeoutMs = TIMEOUT_MS_DEFAULT,
    as_json: Json = False,
) -> None:
    """Find transactions that are open in a partition but that no coordinator will ever end.

    Readers of committed records wait for them for ever. Each can be ended with
    `ottla transactions abort --topic ... --partition ... --start-offset ...`.

    Examples:

    - `ottla transactions find-hanging`

    - `ottla transactions find-hanging --topic orders --idle-ms 3600000`
    """
    from ottla.cli.output import print_json, print_table
    from ottla.cli.session import with_admin

    found = with_admin(
        bootstrap,
        lambda admin: admin.find_hanging_transactions(
            topics or None, brokers=brokers or None, idle_ms=idle_ms
        ),
        timeout_ms=timeout_ms,
    )
    if as_json:
        print_json([{**one._asdict(), "transactional_id": owner} for one, owner in found])
        return
    print_table(
        ("topic", "partition", "start offset", "producer id", "epoch", "last news", "id"),
        [
            (
                one.topic,
                one.partition,
                one.open_since_offset,
                one.producer_id,
                one.producer_epoch,
                _moment(one.last_timestamp_ms),
                owner,
            )
            for one, owner in found
        ],
    )


def _moment(ms: int | None) -> str | None:
    from datetime import datetime

    if ms is None:
        return None
    return datetime.fromtimestamp(ms / 1000).astimezone().isoformat(timespec="milliseconds")


def _described(name: str, one: DescribedTransaction | KafkaError) -> dict[str, Any]:
    from ottla.protocol.errors import KafkaError

    if isinstance(one, KafkaError):
        return {"transactional_id": name, "error": one.code.name}
    return {**one._asdict(), "partitions": [partition._asdict() for partition in one.partitions]}

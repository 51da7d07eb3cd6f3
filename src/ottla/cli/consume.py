"""`ottla consume`: records of a topic to stdout."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cli import moments
from ottla.cli.options import (
    BOOTSTRAP_DEFAULT,
    TIMEOUT_MS_DEFAULT,
    Bootstrap,
    TimeoutMs,
    new_app,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ottla.cli.record_output import Render
    from ottla.client.admin.admin import Admin
    from ottla.client.consumer.consumer import Consumer
    from ottla.client.consumer.interceptors import Records
    from ottla.client.network.cluster import Cluster

app = new_app()

RECORDS_A_WRITE_MAX = 10_000


@app.command()
def consume(
    topic: Annotated[str, typer.Argument(metavar="TOPIC")],
    start: Annotated[
        str, typer.Option("--from", "-o", help=f"Where to begin: {moments.HELP}.")
    ] = "earliest",
    until: Annotated[
        str | None, typer.Option("--until", help="Where to stop, named as in --from.")
    ] = None,
    partition: Annotated[
        list[str] | None, typer.Option("--partition", "-p", help="Which: 0,2 or 0-3; default all.")
    ] = None,
    records_max: Annotated[
        int | None, typer.Option("--max-records", "-n", min=1, help="Stop after this many.")
    ] = None,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow/--exit-at-end", "-F/-e", help="Wait for new records, or stop at the end."
        ),
    ] = True,
    form: Annotated[
        str,
        typer.Option(
            "--format", "-f", help="value, key-value, json, or a template such as '%o %k %v\\n'."
        ),
    ] = "value",
    as_json: Annotated[
        bool, typer.Option("--json", help="The same as --format json: one object a line.")
    ] = False,
    key_separator: Annotated[
        str, typer.Option("--key-separator", "-K", help="Between key and value.")
    ] = "\\t",
    delimiter: Annotated[str, typer.Option("--delimiter", "-D", help="After each record.")] = "\\n",
    null: Annotated[str, typer.Option("--null", help="What a null key or value looks like.")] = "",
    committed: Annotated[
        bool, typer.Option("--committed", help="Hide open and aborted transactions.")
    ] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout_ms: TimeoutMs = TIMEOUT_MS_DEFAULT,
) -> None:
    r"""Print the records of a topic, and go on with those that arrive.

    Marks of templates: %t topic, %p partition, %o offset, %T time in ms, %d time, %k key, %K its
    size, %v (or %s) value, %S its size (-1 if null), %h headers, %% a percent sign.

    Examples:

    - `ottla consume orders`

    - `ottla consume orders --from 15m --exit-at-end --format json`

    - `ottla consume orders -p 0 -o -10 -e -f '%p/%o %d %k=%v\n'`
    """
    from ottla.cli.output import print_note
    from ottla.cli.record_output import renderer, unescape
    from ottla.cli.session import with_cluster
    from ottla.cli.topic_reading import read_topic
    from ottla.client.admin.admin import Admin

    now = moments.now_ms()
    begin = moments.parse_moment(start, now, "--from")
    end = moments.parse_moment(until, now, "--until") if until else None
    chosen = moments.parse_partitions(partition)
    isolation = int(committed)
    render = renderer(
        "json" if as_json else form,
        topic,
        separator=unescape(key_separator),
        delimiter=unescape(delimiter),
        null=null.encode(),
    )

    async def work(cluster: Cluster) -> None:
        admin = Admin.over(cluster)
        indexes = moments.existing(await cluster.topic(topic), chosen)
        # The end first: records that arrive in between then belong to what comes after it.
        ends = await _ends(admin, topic, indexes, end, follow, isolation)
        starts = await moments.resolve(admin, topic, indexes, begin, isolation=isolation)
        for index in indexes:
            if ends is not None and starts[index] > ends[index]:
                print_note(f"{topic}-{index} ends at {ends[index]}, before {starts[index]}.")
        parts = read_topic(
            cluster,
            topic,
            starts,
            ends,
            _poll,
            isolation_level="read_committed" if committed else "read_uncommitted",
        )
        try:
            await _print_all(parts, render, records_max, ends)
        finally:
            await parts.aclose()

    with_cluster(bootstrap, work, timeout_ms=timeout_ms)


async def _ends(
    admin: Admin,
    topic: str,
    indexes: list[int],
    until: moments.Moment | None,
    follow: bool,
    isolation: int,
) -> dict[int, int] | None:
    """Where to stop in each partition; None if never."""
    wanted = None
    if until is not None:
        wanted = await moments.resolve(admin, topic, indexes, until, isolation=isolation)
    if follow:
        return wanted
    latest = await moments.resolve(
        admin, topic, indexes, moments.Moment("latest"), isolation=isolation
    )
    return latest if wanted is None else {i: min(wanted[i], latest[i]) for i in indexes}


async def _poll(consumer: Consumer, wait_ms: int) -> Records:
    return await consumer.poll(wait_ms, RECORDS_A_WRITE_MAX)


async def _print_all(
    parts: AsyncIterator[Records],
    render: Render,
    records_max: int | None,
    ends: dict[int, int] | None,
) -> None:
    """One write for many records: a system call for each would be the limit."""
    out = sys.stdout.buffer
    left = records_max
    async for records in parts:
        lines = [
            render(one.partition, record)
            for one, found in records.items()
            for record in found
            if ends is None or record.offset < ends[one.partition]
        ]
        out.write(b"".join(lines if left is None else lines[:left]))
        out.flush()
        if left is not None:
            left -= len(lines)
            if left <= 0:
                return

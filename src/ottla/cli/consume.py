"""`ottla consume`: records of a topic to stdout."""

from __future__ import annotations

import sys
from dataclasses import dataclass
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
    from ottla.cli.record_output import renderer, unescape
    from ottla.cli.session import with_cluster

    now = moments.now_ms()
    wanted = Wanted(
        topic,
        moments.parse_moment(start, now, "--from"),
        moments.parse_moment(until, now, "--until") if until else None,
        moments.parse_partitions(partition),
        follow,
        committed,
    )
    render = renderer(
        "json" if as_json else form,
        topic,
        separator=unescape(key_separator),
        delimiter=unescape(delimiter),
        null=null.encode(),
    )
    with_cluster(
        bootstrap,
        lambda cluster: _print_wanted(cluster, wanted, render, records_max),
        timeout_ms=timeout_ms,
    )


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be read."""

    topic: str
    begin: moments.Moment
    end: moments.Moment | None
    partitions: list[int] | None
    follow: bool
    committed: bool

    @property
    def isolation(self) -> int:
        return int(self.committed)


async def _print_wanted(
    cluster: Cluster, wanted: Wanted, render: Render, records_max: int | None
) -> None:
    from ottla.cli.output import print_note
    from ottla.cli.topic_reading import read_topic
    from ottla.client.admin.admin import Admin

    admin = Admin.over(cluster)
    topic = wanted.topic
    indexes = moments.existing(await cluster.topic(topic), wanted.partitions)
    # The end first: records that arrive in between then belong to what comes after it.
    ends = await _ends(admin, wanted, indexes)
    starts = await moments.resolve(admin, topic, indexes, wanted.begin, isolation=wanted.isolation)
    for index in indexes:
        if ends is not None and starts[index] > ends[index]:
            print_note(f"{topic}-{index} ends at {ends[index]}, before {starts[index]}.")
    parts = read_topic(
        cluster,
        topic,
        starts,
        ends,
        _poll,
        isolation_level="read_committed" if wanted.committed else "read_uncommitted",
    )
    try:
        await _print_all(parts, render, records_max, ends)
    finally:
        await parts.aclose()


async def _ends(admin: Admin, wanted: Wanted, indexes: list[int]) -> dict[int, int] | None:
    """Where to stop in each partition; None if never."""

    async def found(moment: moments.Moment) -> dict[int, int]:
        return await moments.resolve(
            admin, wanted.topic, indexes, moment, isolation=wanted.isolation
        )

    asked = None if wanted.end is None else await found(wanted.end)
    if wanted.follow:
        return asked
    latest = await found(moments.Moment("latest"))
    return latest if asked is None else {i: min(asked[i], latest[i]) for i in indexes}


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

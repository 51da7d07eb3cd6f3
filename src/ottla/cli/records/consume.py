"""`ottla consume`: prints the records of a topic."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from ottla.cli import moments
from ottla.cli.connection_options import given_options
from ottla.cli.options import BOOTSTRAP_DEFAULT, Bootstrap, new_app

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ottla.cli.records.consume_group import GroupReading
    from ottla.cli.records.writing import Render
    from ottla.cli.topics.reading import IdleLimit
    from ottla.client.admin.admin import Admin
    from ottla.client.consumer.consumer import Consumer
    from ottla.client.consumer.interceptors import Records
    from ottla.client.network.cluster import Cluster
    from ottla.client.settings.consumer import ConsumerOptions

app = new_app()

RECORDS_A_WRITE_MAX = 10_000


Start = Annotated[str, typer.Option("--from", "-o", help=f"Where to begin: {moments.HELP}.")]
Until = Annotated[str | None, typer.Option("--until", help="Where to stop, named as in --from.")]
Partitions = Annotated[
    list[str] | None, typer.Option("--partition", "-p", help="Which: 0,2 or 0-3; default all.")
]
RecordsMax = Annotated[
    int | None, typer.Option("--max-records", "-n", min=1, help="Stop after this many.")
]
Follow = Annotated[
    bool,
    typer.Option(
        "--follow/--exit-at-end", "-F/-e", help="Wait for new records, or stop at the end."
    ),
]
IdleMs = Annotated[
    int | None,
    typer.Option("--timeout-ms", min=1, help="Stop if no record arrives for this long."),
]
Form = Annotated[
    str,
    typer.Option(
        "--format", "-f", help="value, key-value, json, or a template such as '%o %k %v\\n'."
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="The same as --format json: one object a line.")
]
KeySeparator = Annotated[str, typer.Option("--key-separator", "-K", help="Between key and value.")]
Delimiter = Annotated[str, typer.Option("--delimiter", "-D", help="After each record.")]
ValueFormat = Annotated[
    str,
    typer.Option(
        "--value-format",
        help="With --json: auto shows values that are JSON objects or lists as such, text all "
        "as strings.",
    ),
]
Null = Annotated[str, typer.Option("--null", help="What a null key or value looks like.")]
Group = Annotated[
    str | None,
    typer.Option(
        "--group",
        "-g",
        help="Read as a member of this group: begin where it left off, commit what is printed.",
    ),
]
Committed = Annotated[bool, typer.Option("--committed", help="Hide open and aborted transactions.")]


@app.command()
def consume(
    topic: Annotated[str, typer.Argument(metavar="TOPIC")],
    start: Start = "earliest",
    until: Until = None,
    partition: Partitions = None,
    records_max: RecordsMax = None,
    follow: Follow = True,
    idle_ms: IdleMs = None,
    form: Form = "value",
    as_json: AsJson = False,
    key_separator: KeySeparator = "\\t",
    delimiter: Delimiter = "\\n",
    value_format: ValueFormat = "auto",
    null: Null = "",
    group: Group = None,
    committed: Committed = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
) -> None:
    r"""Print the records of a topic, and go on with those that arrive.

    Marks of templates: %t topic, %p partition, %o offset, %T time in ms, %d time, %k key, %K its
    size, %v (or %s) value, %S its size (-1 if null), %h headers, %% a percent sign.

    On a terminal, control characters in records are shown as escapes; a pipe or file gets the bytes
    as they are.

    Examples:

    - `ottla consume orders`

    - `ottla consume orders --from 15m --exit-at-end --format json`

    - `ottla consume orders --group billing --exit-at-end`

    - `ottla consume orders -p 0 -o -10 -e -f '%p/%o %d %k=%v\n'`
    """
    from ottla.cli.session import with_cluster

    wanted = _wanted(topic, start, until, partition, follow, committed)
    render = _renderer(
        topic, "json" if as_json else form, key_separator, delimiter, value_format, null
    )
    reading = _group_reading(group, wanted, start, records_max) if group is not None else None
    options = _consumer_options(of_group=reading is not None)
    if reading is not None:
        work = partial(_print_as_member, reading=reading, committed=committed, render=render)
    else:
        work = partial(_print_wanted, wanted=wanted, render=render, records_max=records_max)
    with_cluster(bootstrap, partial(work, idle_ms=idle_ms, options=options))


def _wanted(
    topic: str,
    start: str,
    until: str | None,
    partitions: list[str] | None,
    follow: bool,
    committed: bool,
) -> Wanted:
    now = moments.now_ms()
    return Wanted(
        topic,
        moments.parse_moment(start, now, "--from"),
        moments.parse_moment(until, now, "--until") if until else None,
        moments.parse_partitions(partitions),
        follow,
        committed,
    )


def _renderer(
    topic: str, form: str, key_separator: str, delimiter: str, value_format: str, null: str
) -> Render:
    from ottla.cli.records.writing import renderer, unescape

    if value_format not in ("auto", "text"):
        raise typer.BadParameter(
            f"{value_format!r} is none of auto, text", param_hint="--value-format"
        )
    return renderer(
        form,
        topic,
        separator=unescape(key_separator),
        delimiter=unescape(delimiter),
        null=null.encode(),
        embeds_json=value_format == "auto",
        for_terminal=sys.stdout.isatty(),
    )


def _consumer_options(*, of_group: bool) -> ConsumerOptions:
    """Return the settings of `-X` and the file, for a group member or a plain consumer."""
    from ottla.client.settings.consumer import ConsumerSettings

    options = cast("ConsumerOptions", given_options(ConsumerSettings))
    if not of_group:
        # A file for consumers names a group, but without --group nothing is committed for it.
        options.pop("group_id", None)
        options.pop("group_instance_id", None)
    return options


def _group_reading(group: str, wanted: Wanted, start: str, records_max: int | None) -> GroupReading:
    from ottla.cli.records.consume_group import GroupReading

    if wanted.partitions is not None or wanted.end is not None:
        raise typer.BadParameter("--group shares the topic out: leave out --partition and --until")
    if start not in ("earliest", "latest"):
        raise typer.BadParameter(
            "with --group it is earliest or latest, for partitions without a committed offset; "
            "`ottla groups reset-offsets` moves a group",
            param_hint="--from",
        )
    return GroupReading(wanted.topic, group, start, wanted.follow, records_max)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The records to read: topic, range and partitions."""

    topic: str
    begin: moments.Moment
    end: moments.Moment | None
    partitions: list[int] | None
    follow: bool
    committed: bool

    @property
    def isolation(self) -> int:
        return int(self.committed)


async def _print_as_member(
    cluster: Cluster,
    *,
    reading: GroupReading,
    committed: bool,
    render: Render,
    idle_ms: int | None,
    options: ConsumerOptions,
) -> None:
    from ottla.cli.records.consume_group import read_as_member
    from ottla.cli.topics.reading import IdleLimit

    options = {"isolation_level": _isolation_level(committed), **options}
    idle = IdleLimit(cluster.runtime.clock.now, idle_ms)
    parts = read_as_member(cluster, reading, idle, **options)
    try:
        await _print_all(parts, render, None, None, idle)
    finally:
        await parts.aclose()


def _isolation_level(committed: bool) -> Literal["read_committed", "read_uncommitted"]:
    return "read_committed" if committed else "read_uncommitted"


async def _print_wanted(
    cluster: Cluster,
    *,
    wanted: Wanted,
    render: Render,
    records_max: int | None,
    idle_ms: int | None,
    options: ConsumerOptions,
) -> None:
    from ottla.cli.output import print_note
    from ottla.cli.topics.reading import IdleLimit, read_topic
    from ottla.client.admin.admin import Admin

    options = {"isolation_level": _isolation_level(wanted.committed), **options}
    admin = Admin.over(cluster)
    topic = wanted.topic
    indexes = moments.existing(await cluster.topic(topic), wanted.partitions)
    # Resolve the end first: records that arrive in between then lie after it.
    ends = await _ends(admin, wanted, indexes)
    starts = await moments.resolve(admin, topic, indexes, wanted.begin, isolation=wanted.isolation)
    for index in indexes:
        if ends is not None and starts[index] > ends[index]:
            print_note(f"{topic}-{index} ends at {ends[index]}, before {starts[index]}.")
    idle = IdleLimit(cluster.runtime.clock.now, idle_ms)
    parts = read_topic(cluster, topic, starts, ends, _poll, idle, **options)
    try:
        await _print_all(parts, render, records_max, ends, idle)
    finally:
        await parts.aclose()


async def _ends(admin: Admin, wanted: Wanted, indexes: list[int]) -> dict[int, int] | None:
    """Return where to stop in each partition; None if never."""

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
    idle: IdleLimit,
) -> None:
    """Print records, many with one write: one system call per record would limit the speed."""
    from ottla.cli.output import print_note

    out = sys.stdout.buffer
    printed = 0
    async for records in parts:
        lines = [
            render(one.partition, record)
            for one, found in records.items()
            for record in found
            if ends is None or record.offset < ends[one.partition]
        ]
        if records_max is not None:
            del lines[records_max - printed :]
        out.write(b"".join(lines))
        out.flush()
        printed += len(lines)
        if printed == records_max:
            return
    if idle.was_reached:
        print_note(f"No record arrived within --timeout-ms; {printed} record(s) printed.")

"""`ottla topics`: creates, lists, describes, alters and deletes topics, and deletes records.

Moving partitions and electing leaders are in modules of their own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.cli import moments
from ottla.cli.consent import want_consent
from ottla.cli.options import (
    BOOTSTRAP_DEFAULT,
    TIMEOUT_MS_DEFAULT,
    Bootstrap,
    Internal,
    Json,
    TimeoutMs,
    Yes,
    new_app,
    parse_pairs,
)
from ottla.cli.topics.elect import elect_leaders
from ottla.cli.topics.reassign import reassign

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.client.admin.topics import CreatedTopic
    from ottla.client.network.metadata import Partition, Topic
    from ottla.protocol.errors import KafkaError

app = new_app("Create, list, describe, alter, move and delete topics.")

Partitions = Annotated[
    int | None, typer.Option("--partitions", "-p", min=1, help="How many partitions.")
]
Assign = Annotated[
    str | None,
    typer.Option(
        "--assign",
        metavar="B:B,...",
        help="Brokers of each partition, first the preferred leader: 1:2,2:3 is two partitions.",
    ),
]


def parse_assignment(text: str) -> list[list[int]]:
    try:
        return [[int(broker) for broker in part.split(":")] for part in text.split(",")]
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is no assignment; write broker ids like 1:2,2:3", param_hint="--assign"
        ) from None


@app.command()
def create(
    names: Annotated[list[str], typer.Argument(metavar="TOPIC", show_default=False)],
    partitions: Partitions = None,
    replication_factor: Annotated[
        int | None, typer.Option("--replication-factor", "-r", min=1, help="Copies of each.")
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", "-c", metavar="KEY=VALUE", help="A setting; may be repeated."),
    ] = None,
    assign: Assign = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="An existing topic is no error.")
    ] = False,
    validate_only: Annotated[
        bool, typer.Option("--validate-only", help="Check the request, create nothing.")
    ] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout_ms: TimeoutMs = TIMEOUT_MS_DEFAULT,
    as_json: Json = False,
) -> None:
    """Create topics. Numbers left out are the broker's defaults.

    Examples:

    - `ottla topics create orders --partitions 6`

    - `ottla topics create clicks -p 3 -c retention.ms=86400000 -c compression.type=zstd`

    - `ottla topics create placed --assign 1:2,2:3`
    """
    from ottla.cli.session import with_admin
    from ottla.client.admin.topics import SERVER_DEFAULT, NewTopic
    from ottla.protocol.errors import ErrorCode, KafkaError

    if assign and (partitions or replication_factor):
        raise typer.BadParameter("--assign already says how many partitions and copies")
    placement = dict(enumerate(parse_assignment(assign))) if assign else None
    configs = parse_pairs(config or [], "--config")
    wanted = [
        NewTopic(
            name,
            partitions or SERVER_DEFAULT,
            replication_factor or SERVER_DEFAULT,
            placement,
            configs,
        )
        for name in dict.fromkeys(names)
    ]

    def excused(answer: CreatedTopic | KafkaError) -> bool:
        return (
            if_not_exists
            and isinstance(answer, KafkaError)
            and answer.code is ErrorCode.TOPIC_ALREADY_EXISTS
        )

    answers = with_admin(
        bootstrap,
        lambda admin: admin.create_topics(wanted, validate_only=validate_only),
        timeout_ms=timeout_ms,
    )
    made = {name: None if excused(answer) else answer for name, answer in answers.items()}
    _report_created(made, validate_only, as_json)
    if any(isinstance(answer, KafkaError) for answer in made.values()):
        raise typer.Exit(1)


def _report_created(
    made: dict[str, CreatedTopic | KafkaError | None], validate_only: bool, as_json: bool
) -> None:
    """Report the outcome for each topic; None is one that existed already."""
    from ottla.cli.failure import explain
    from ottla.cli.output import print_json, print_line, print_note
    from ottla.protocol.errors import KafkaError

    if as_json:
        print_json([_created(name, topic, not validate_only) for name, topic in made.items()])
        return
    verb = "could be created" if validate_only else "created"
    for name, topic in made.items():
        if isinstance(topic, KafkaError):
            print_note(f"ottla: {name}: {explain(topic)}")
        elif topic is None:
            print_line(f"Topic {name} exists already.")
        else:
            print_line(f"Topic {name} {verb}{_with_partitions(topic)}.")


def _with_partitions(topic: CreatedTopic) -> str:
    return f" with {topic.partitions} partition(s)" if topic.partitions else ""


def _created(
    name: str, topic: CreatedTopic | KafkaError | None, in_earnest: bool
) -> dict[str, Any]:
    from ottla.protocol.errors import KafkaError
    from ottla.protocol.uuids import to_text

    if isinstance(topic, KafkaError):
        return {"topic": name, "created": False, "error": topic.code.name}
    entry: dict[str, Any] = {"topic": name, "created": topic is not None and in_earnest}
    if topic is not None:
        entry["partitions"] = topic.partitions
        entry["replication_factor"] = topic.replication_factor
        entry["topic_id"] = to_text(topic.topic_id) if topic.topic_id else None
    return entry


@app.command("list")
def list_topics(
    internal: Internal = False,
    names_only: Annotated[bool, typer.Option("--names", help="One name a line.")] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout_ms: TimeoutMs = TIMEOUT_MS_DEFAULT,
    as_json: Json = False,
) -> None:
    """List topics.

    Topics that brokers, sinks and streams keep for themselves are shown with --internal.

    Examples:

    - `ottla topics list`

    - `ottla topics list --names | xargs -n1 ottla offsets`
    """
    from ottla.cli.output import print_json, print_line, print_table
    from ottla.cli.topics.output import replica_range, summary

    topics = _topics(None, bootstrap, timeout_ms)
    shown = [topic for topic in topics if internal or not _is_internal(topic)]
    if as_json:
        print_json([summary(topic) for topic in shown])
    elif names_only:
        for topic in shown:
            print_line(topic.name)
    else:
        print_table(
            ("topic", "partitions", "replicas", "internal"),
            [(t.name, len(t.partitions), replica_range(t), t.internal) for t in shown],
        )


@app.command()
def describe(
    names: Annotated[list[str] | None, typer.Argument(metavar="TOPIC")] = None,
    under_replicated: Annotated[
        bool, typer.Option("--under-replicated", help="Only partitions with replicas missing.")
    ] = False,
    unavailable: Annotated[
        bool, typer.Option("--unavailable", help="Only partitions without a leader.")
    ] = False,
    internal: Internal = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout_ms: TimeoutMs = TIMEOUT_MS_DEFAULT,
    as_json: Json = False,
) -> None:
    """Show the partitions of topics: who leads them, where the copies are, which are in sync.

    Shows all topics if none is named; internal ones only with --internal, or if a filter matches
    them.

    Examples:

    - `ottla topics describe orders`

    - `ottla topics describe --under-replicated`
    """
    from ottla.cli.output import print_json
    from ottla.cli.session import with_admin
    from ottla.cli.topics.output import description, print_topic

    def wanted(partition: Partition) -> bool:
        if unavailable and partition.leader >= 0:
            return False
        return not under_replicated or len(partition.isr) < len(partition.replicas)

    topics = _topics(names or None, bootstrap, timeout_ms)
    filtered = under_replicated or unavailable
    if not (names or filtered or internal):
        topics = [topic for topic in topics if not _is_internal(topic)]
    shown = [(topic, [p for p in topic.partitions if wanted(p)]) for topic in topics]
    shown = [(topic, parts) for topic, parts in shown if parts or not filtered]
    found = [topic.name for topic, _ in shown]
    others = with_admin(
        bootstrap, lambda admin: admin.describe_eligible_leaders(found), timeout_ms=timeout_ms
    )
    if as_json:
        print_json([description(topic, parts, others) for topic, parts in shown])
        return
    for topic, parts in shown:
        print_topic(topic, parts, others)


@app.command()
def alter(
    name: Annotated[str, typer.Argument(metavar="TOPIC")],
    partitions: Partitions = None,
    assign: Annotated[
        str | None,
        typer.Option("--assign", metavar="B:B,...", help="Brokers of the added partitions."),
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting.")
    ] = None,
    delete_: Annotated[
        list[str] | None,
        typer.Option("--delete", metavar="KEY", help="Give a setting its default again."),
    ] = None,
    validate_only: Annotated[
        bool, typer.Option("--validate-only", help="Check the request, change nothing.")
    ] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout_ms: TimeoutMs = TIMEOUT_MS_DEFAULT,
    as_json: Json = False,
) -> None:
    """Add partitions to a topic, or change its settings.

    Partitions cannot be taken away, and keys move to other partitions when some are added.

    Examples:

    - `ottla topics alter orders --partitions 12`

    - `ottla topics alter orders --set retention.ms=3600000 --delete segment.bytes`
    """
    from ottla.cli.output import deed
    from ottla.cli.session import with_admin
    from ottla.client.admin.configs import ConfigResource, ResourceType

    changes: dict[str, str | None] = {
        **parse_pairs(set_ or [], "--set"),
        **dict.fromkeys(delete_ or []),
    }
    if partitions is None and not changes:
        raise typer.BadParameter("nothing to alter: give --partitions, --set or --delete")

    async def work(admin: Admin) -> None:
        if partitions is not None:
            placement = parse_assignment(assign) if assign else None
            await admin.create_partitions(
                name, partitions, assignments=placement, validate_only=validate_only
            )
        if changes:
            await admin.alter_config(
                ConfigResource(ResourceType.TOPIC, name), changes, validate_only=validate_only
            )

    with_admin(bootstrap, work, timeout_ms=timeout_ms)
    verb = "could be altered" if validate_only else "altered"
    deed(as_json, {"topic": name, "altered": not validate_only}, f"Topic {name} {verb}.")


@app.command()
def delete(
    names: Annotated[list[str], typer.Argument(metavar="TOPIC", show_default=False)],
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="A missing topic is no error.")
    ] = False,
    yes: Yes = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout_ms: TimeoutMs = TIMEOUT_MS_DEFAULT,
    as_json: Json = False,
) -> None:
    """Delete topics with all their records. Asks first; without a terminal, --yes is needed.

    Examples:

    - `ottla topics delete orders --yes`

    - `ottla topics delete scratch --if-exists --yes`
    """
    from ottla.cli.output import print_json, print_line, print_note
    from ottla.cli.session import with_admin
    from ottla.protocol.errors import ErrorCode

    want_consent(f"Delete {', '.join(names)} with all records?", yes)
    outcome = with_admin(bootstrap, lambda admin: admin.delete_topics(names), timeout_ms=timeout_ms)
    failed = False
    report = []
    for name, error in outcome.items():
        missing = error is not None and error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        excused = missing and if_exists
        failed |= error is not None and not excused
        report.append(
            {
                "topic": name,
                "deleted": error is None,
                "error": error.code.name if error is not None and not excused else None,
            }
        )
        if as_json:
            continue
        if error is None:
            print_line(f"Topic {name} deleted.")
        elif missing:
            print_note(f"ottla: there is no topic {name!r}")
        else:
            print_note(f"ottla: {name}: {error}")
    if as_json:
        print_json(report)
    if failed:
        raise typer.Exit(1)


@app.command("delete-records")
def delete_records(
    name: Annotated[str, typer.Argument(metavar="TOPIC")],
    before: Annotated[str, typer.Option("--before", help=f"Where to cut: {moments.HELP}.")],
    partition: Annotated[
        list[str] | None, typer.Option("--partition", "-p", help="Which partitions; default all.")
    ] = None,
    yes: Yes = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout_ms: TimeoutMs = TIMEOUT_MS_DEFAULT,
    as_json: Json = False,
) -> None:
    """Delete the oldest records of a topic, up to an offset or a time. Asks first.

    Examples:

    - `ottla topics delete-records orders --before 7d`

    - `ottla topics delete-records orders --partition 0 --before 1200`
    """
    from ottla.cli.output import print_json, print_table
    from ottla.cli.session import with_admin
    from ottla.client.values import TopicPartition
    from ottla.protocol.errors import KafkaError

    moment = moments.parse_moment(before, moments.now_ms(), "--before")
    chosen = moments.parse_partitions(partition)
    want_consent(f"Delete records of {name} before {before}?", yes)

    async def work(admin: Admin) -> dict[TopicPartition, int | KafkaError]:
        topic = await admin.describe_topic(name)
        indexes = chosen if chosen is not None else [p.index for p in topic.partitions]
        cuts = await moments.resolve(admin, name, indexes, moment)
        return await admin.delete_records(
            {TopicPartition(name, index): offset for index, offset in cuts.items()}
        )

    outcome = with_admin(bootstrap, work, timeout_ms=timeout_ms)
    rows = [
        {
            "topic": name,
            "partition": one.partition,
            "earliest": result if isinstance(result, int) else None,
            "error": result.code.name if isinstance(result, KafkaError) else None,
        }
        for one, result in outcome.items()
    ]
    if as_json:
        print_json(rows)
    else:
        print_table(
            ("partition", "earliest", "error"),
            [(row["partition"], row["earliest"], row["error"]) for row in rows],
        )
    if any(row["error"] for row in rows):
        raise typer.Exit(1)


app.command("reassign")(reassign)
app.command("elect-leaders")(elect_leaders)


def _is_internal(topic: Topic) -> bool:
    from ottla.cli.names import is_internal

    return topic.internal or is_internal(topic.name)


def _topics(names: Iterable[str] | None, bootstrap: str, timeout_ms: int) -> list[Topic]:
    """Return the requested topics; raise `TopicMissing` or the broker's error for the first."""
    from ottla.cli.session import with_admin
    from ottla.client.errors import TopicMissing
    from ottla.protocol.errors import ErrorCode, KafkaError

    found = with_admin(bootstrap, lambda admin: admin.describe_topics(names), timeout_ms=timeout_ms)
    topics: list[Topic] = []
    for name, topic in found.items():
        if isinstance(topic, KafkaError):
            missing = topic.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            raise TopicMissing(name) if missing else topic
        topics.append(topic)
    return topics

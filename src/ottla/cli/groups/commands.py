"""`ottla groups`: shows groups and their lag, deletes groups, resets their offsets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.cli.consent import want_consent
from ottla.cli.groups.reset import reset_offsets
from ottla.cli.options import (
    BOOTSTRAP_DEFAULT,
    TIMEOUT_MS_DEFAULT,
    Bootstrap,
    Internal,
    Json,
    TimeoutMs,
    Yes,
    new_app,
)
from ottla.cli.topics.scopes import Scope, covers, parse_scope

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.client.admin.group_values import DescribedGroup, PartitionLag
    from ottla.client.admin.partitions import Outcome
    from ottla.client.values import TopicPartition
    from ottla.protocol.errors import KafkaError

    Found = dict[str, DescribedGroup | KafkaError]
    Lags = dict[str, list[PartitionLag] | KafkaError]

app = new_app("List, describe and delete consumer groups, and reset their offsets.")
app.command("reset-offsets")(reset_offsets)

STATES = (
    *("Assigning", "CompletingRebalance", "Dead", "Empty", "NotReady", "PreparingRebalance"),
    *("Reconciling", "Stable"),
)
TYPES = ("classic", "consumer", "share", "streams")


@app.command("list")
def list_(
    states: Annotated[
        list[str] | None,
        typer.Option("--state", metavar="NAME", help=f"Only in these: {', '.join(STATES)}."),
    ] = None,
    types: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="NAME", help=f"Only of these: {', '.join(TYPES)}."),
    ] = None,
    internal: Internal = False,
    names_only: Annotated[bool, typer.Option("--names", help="One name a line.")] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout_ms: TimeoutMs = TIMEOUT_MS_DEFAULT,
    as_json: Json = False,
) -> None:
    """List groups with type, state and protocol.

    Groups that pipelines keep for themselves (ottla-sink-...) are shown with --internal.

    Examples:

    - `ottla groups list`

    - `ottla groups list --state Empty --type classic --names`
    """
    from ottla.cli.names import is_internal
    from ottla.cli.output import print_json, print_line, print_table
    from ottla.cli.session import with_admin

    wanted_states = _chosen(states, STATES, "--state")
    wanted_types = _chosen(types, TYPES, "--type")
    found = with_admin(
        bootstrap,
        lambda admin: admin.list_groups(states=wanted_states, types=wanted_types),
        timeout_ms=timeout_ms,
    )
    found = [one for one in found if internal or not is_internal(one.group_id)]
    if as_json:
        columns = ("group", "type", "state", "protocol", "coordinator")
        print_json([dict(zip(columns, one, strict=True)) for one in found])
    elif names_only:
        for one in found:
            print_line(one.group_id)
    else:
        print_table(
            ("group", "type", "state", "protocol", "coordinator"),
            [(*one[:3], one.protocol_type or None, one.coordinator) for one in found],
            spare=("protocol", "coordinator"),
        )


def _chosen(texts: list[str] | None, names: Iterable[str], option: str) -> list[str]:
    """Return the names as brokers spell them; given in any case, repeated or with commas."""
    known = {name.lower(): name for name in names}
    chosen: list[str] = []
    for text in ",".join(texts or []).split(",") if texts else ():
        name = known.get(text.strip().lower())
        if name is None:
            raise typer.BadParameter(
                f"there is no {text.strip()!r}; there are: {', '.join(known.values())}",
                param_hint=option,
            )
        chosen.append(name)
    return chosen


@app.command()
def describe(
    groups: Annotated[list[str] | None, typer.Argument(metavar="GROUP")] = None,
    all_groups: Annotated[bool, typer.Option("--all", help="All groups of consumers.")] = False,
    internal: Internal = False,
    offsets: Annotated[
        bool, typer.Option("--offsets", help="Offsets and lag of each partition: the default.")
    ] = False,
    members: Annotated[
        bool, typer.Option("--members", help="Who is in it, and owns what.")
    ] = False,
    state: Annotated[
        bool, typer.Option("--state", help="One line a group: state, assignor, coordinator.")
    ] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout_ms: TimeoutMs = TIMEOUT_MS_DEFAULT,
    as_json: Json = False,
) -> None:
    """Show how far groups are behind, their members, or their state.

    Lag is counted in records, and in time: the age of the first record that is not committed.

    Examples:

    - `ottla groups describe billing`

    - `ottla groups describe billing --members`

    - `ottla groups describe --all --state`

    - `ottla groups describe billing --json | jq .[0].lag_seconds`
    """
    from ottla.cli.names import is_internal
    from ottla.cli.output import print_json, print_note
    from ottla.cli.session import with_admin

    if bool(groups) == all_groups:
        raise typer.BadParameter("name groups, or give --all")
    offsets = offsets or not (members or state)

    async def work(admin: Admin) -> tuple[Found, Lags]:
        names = groups or [
            one.group_id
            for one in await admin.list_consumer_groups()
            if internal or not is_internal(one.group_id)
        ]
        return await _found(admin, names, offsets)

    found, lags = with_admin(bootstrap, work, timeout_ms=timeout_ms)
    if as_json:
        print_json([_entry(name, one, lags.get(name), members) for name, one in found.items()])
    else:
        _show(found, lags, offsets=offsets, members=members)
    failed = {name: error for name, one in (found | lags).items() if (error := _problem(name, one))}
    for line in failed.values():
        print_note(f"ottla: {line}")
    if failed:
        raise typer.Exit(1)


async def _found(admin: Admin, groups: list[str], offsets: bool) -> tuple[Found, Lags]:
    from ottla.protocol.errors import KafkaError

    found = await admin.describe_groups(groups)
    there = [one for one in found.values() if not isinstance(one, KafkaError)]
    return found, await admin.group_lags(there) if offsets else {}


def _problem(group: str, answer: object) -> str | None:
    from ottla.client.errors import GroupMissing
    from ottla.protocol.errors import ErrorCode, KafkaError

    if not isinstance(answer, KafkaError):
        return None
    if answer.code is ErrorCode.GROUP_ID_NOT_FOUND:
        return str(GroupMissing(group))
    return f"group {group!r}: {answer}"


def _entry(
    name: str,
    found: DescribedGroup | KafkaError,
    lags: list[PartitionLag] | KafkaError | None,
    members: bool,
) -> dict[str, Any]:
    from ottla.cli.groups.output import members_entry, offsets_entry, summary
    from ottla.protocol.errors import KafkaError

    if isinstance(found, KafkaError):
        return {"group": name, "error": found.code.name}
    entry = summary(found)
    if isinstance(lags, KafkaError):
        entry["error"] = lags.code.name
    elif lags is not None:
        entry |= offsets_entry(lags)
    return entry | (members_entry(found) if members else {})


def _show(found: Found, lags: Lags, *, offsets: bool, members: bool) -> None:
    from ottla.cli.groups import output as group_output
    from ottla.protocol.errors import KafkaError

    there = [one for one in found.values() if not isinstance(one, KafkaError)]
    if not (offsets or members):
        if there:
            group_output.print_states(there)
        return
    for group in there:
        known = lags.get(group.group_id)
        partitions = None if isinstance(known, KafkaError) else known
        group_output.print_headline(group, partitions)
        if partitions:
            group_output.print_offsets(partitions)
        if members and group.members:
            group_output.print_members(group)
        if group is not there[-1]:
            typer.echo()


@app.command()
def delete(
    groups: Annotated[list[str], typer.Argument(metavar="GROUP", show_default=False)],
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="A missing group is no error.")
    ] = False,
    yes: Yes = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout_ms: TimeoutMs = TIMEOUT_MS_DEFAULT,
    as_json: Json = False,
) -> None:
    """Delete groups that have no members, with the offsets they have committed. Asks first.

    Examples:

    - `ottla groups delete billing --yes`

    - `ottla groups delete scratch --if-exists --yes`
    """
    from ottla.cli.output import print_json, print_line, print_note
    from ottla.cli.session import with_admin
    from ottla.protocol.errors import ErrorCode

    want_consent(f"Delete {', '.join(groups)} with all offsets?", yes)
    outcome = with_admin(
        bootstrap, lambda admin: admin.delete_groups(groups), timeout_ms=timeout_ms
    )
    failed = False
    report = []
    for name, error in outcome.items():
        missing = error is not None and error.code is ErrorCode.GROUP_ID_NOT_FOUND
        excused = missing and if_exists
        failed |= error is not None and not excused
        code = error.code.name if error is not None and not excused else None
        report.append({"group": name, "deleted": error is None, "error": code})
        if as_json:
            continue
        if error is None:
            print_line(f"Group {name} deleted.")
        else:
            print_note(f"ottla: {_undeleted(name, error)}")
    if as_json:
        print_json(report)
    if failed:
        raise typer.Exit(1)


def _undeleted(group: str, error: KafkaError) -> str:
    from ottla.protocol.errors import ErrorCode

    if error.code is ErrorCode.NON_EMPTY_GROUP:
        return f"group {group!r} has members; stop its consumers first, or wait for their session"
    return _problem(group, error) or ""


@app.command("delete-offsets")
def delete_offsets(
    group: Annotated[str, typer.Argument(metavar="GROUP", show_default=False)],
    topics: Annotated[
        list[str],
        typer.Option(
            "--topic",
            metavar="TOPIC[:0,1-3]",
            help="All or some partitions of this topic; may be repeated.",
            show_default=False,
        ),
    ],
    yes: Yes = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout_ms: TimeoutMs = TIMEOUT_MS_DEFAULT,
    as_json: Json = False,
) -> None:
    """Forget the offsets that a group has committed for topics it no longer reads. Asks first.

    A group with members keeps those of the topics that they subscribe to.

    Examples:

    - `ottla groups delete-offsets billing --topic orders`

    - `ottla groups delete-offsets billing --topic orders:0,1 --topic clicks`
    """
    from ottla.cli.output import print_json, print_table
    from ottla.cli.session import with_admin

    scope = parse_scope(topics)
    want_consent(f"Delete the offsets of {group} for {', '.join(topics)}?", yes)

    async def work(admin: Admin) -> Outcome:
        places = _to_forget(group, scope, await admin.list_group_offsets(group))
        return await admin.delete_group_offsets(group, places)

    outcome = with_admin(bootstrap, work, timeout_ms=timeout_ms)
    rows = [(*place, error.code.name if error else None) for place, error in outcome.items()]
    if as_json:
        names = ("topic", "partition", "deleted", "error")
        print_json([dict(zip(names, (*row[:2], not row[2], row[2]), strict=True)) for row in rows])
    else:
        print_table(("topic", "partition", "deleted"), [(*row[:2], row[2] or True) for row in rows])
    if any(error for *_, error in rows):
        raise typer.Exit(1)


def _to_forget(
    group: str, scope: Scope, committed: Iterable[TopicPartition]
) -> list[TopicPartition]:
    """Return the named partitions; for topics without any, all that the group has committed."""
    from ottla.client.errors import ClientError
    from ottla.client.values import TopicPartition

    places = {one for one in committed if covers(scope, one)}
    places |= {TopicPartition(name, index) for name, some in scope.items() for index in some or ()}
    if empty := [name for name in scope if name not in {one.topic for one in places}]:
        raise ClientError(f"group {group!r} has committed nothing for topic {empty[0]!r}")
    return sorted(places)

"""`ottla groups reset-offsets`: sets the offsets at which a group without members continues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.cli import durations
from ottla.cli.options import BOOTSTRAP_DEFAULT, TIMEOUT_MS_DEFAULT, Bootstrap, Json, TimeoutMs
from ottla.cli.topics.scopes import Scope, covers, parse_scope, partitions_of

if TYPE_CHECKING:
    from ottla.cli.groups.reset_file import Plan
    from ottla.cli.groups.reset_plan import PlannedOffset, Target
    from ottla.client.admin.admin import Admin
    from ottla.client.admin.group_offsets import Committed
    from ottla.client.values import TopicPartition

TARGETS = (
    "--to-earliest, --to-latest, --to-current, --to-datetime, --by-duration, --shift-by, "
    "--to-offset or --from-file"
)
SCOPES = "Which partitions"
WHERE = "Where to (one of these)"


AllTopics = Annotated[
    bool,
    typer.Option("--all-topics", help="All it has committed offsets for.", rich_help_panel=SCOPES),
]
Topics = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        metavar="TOPIC[:0,1-3]",
        help="All or some partitions of this topic; may be repeated.",
        rich_help_panel=SCOPES,
    ),
]
ToEarliest = Annotated[
    bool, typer.Option("--to-earliest", help="The first record.", rich_help_panel=WHERE)
]
ToLatest = Annotated[
    bool, typer.Option("--to-latest", help="Behind the last record.", rich_help_panel=WHERE)
]
ToCurrent = Annotated[
    bool, typer.Option("--to-current", help="Where it is: to export it.", rich_help_panel=WHERE)
]
ToDatetime = Annotated[
    str | None,
    typer.Option(
        "--to-datetime",
        metavar="TIME",
        help="The first record at or after an ISO time, in this machine's zone unless named.",
        rich_help_panel=WHERE,
    ),
]
ByDuration = Annotated[
    str | None,
    typer.Option(
        "--by-duration",
        metavar="LENGTH",
        help=f"The first record not older: {durations.HELP}.",
        rich_help_panel=WHERE,
    ),
]
ShiftBy = Annotated[
    int | None,
    typer.Option(
        "--shift-by", metavar="N", help="N records on, or back (-N).", rich_help_panel=WHERE
    ),
]
ToOffset = Annotated[
    int | None,
    typer.Option("--to-offset", metavar="N", min=0, help="This offset.", rich_help_panel=WHERE),
]
FromFile = Annotated[
    str | None,
    typer.Option(
        "--from-file",
        metavar="CSV",
        help="Lines of topic,partition,offset, as --export writes them; - is stdin.",
        rich_help_panel=WHERE,
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Only show what would be done: the default.")
]
Execute = Annotated[bool, typer.Option("--execute", help="Do it.")]
Export = Annotated[
    bool,
    typer.Option(
        "--export", help="Print topic,partition,offset as CSV (several groups: with the group)."
    ),
]


def reset_offsets(
    groups: Annotated[list[str], typer.Argument(metavar="GROUP", show_default=False)],
    all_topics: AllTopics = False,
    topics: Topics = None,
    to_earliest: ToEarliest = False,
    to_latest: ToLatest = False,
    to_current: ToCurrent = False,
    to_datetime: ToDatetime = None,
    by_duration: ByDuration = None,
    shift_by: ShiftBy = None,
    to_offset: ToOffset = None,
    from_file: FromFile = None,
    dry_run: DryRun = False,
    execute: Execute = False,
    export: Export = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout_ms: TimeoutMs = TIMEOUT_MS_DEFAULT,
    as_json: Json = False,
) -> None:
    """Set the offsets at which a group goes on. Shows the plan; --execute carries it out.

    The group must have no members. Offsets outside of what a partition holds become its first or
    its end, with a warning. A group that does not exist yet gets its offsets in advance.

    Examples:

    - `ottla groups reset-offsets billing --all-topics --to-earliest`

    - `ottla groups reset-offsets billing --topic orders:0,1 --shift-by -100 --execute`

    - `ottla groups reset-offsets billing --topic orders --by-duration 2h30m --execute`

    - `ottla groups reset-offsets billing --all-topics --to-current --export > billing.csv`

    - `ottla groups reset-offsets billing --from-file billing.csv --execute`
    """
    from ottla.cli.groups.reset_file import read_plan
    from ottla.cli.session import with_admin

    _check_deed(dry_run, execute, export, as_json)
    target = _target(
        to_earliest, to_latest, to_current, to_datetime, by_duration, shift_by, to_offset, from_file
    )
    scope = _scope(all_topics, topics, from_file)
    names = list(dict.fromkeys(groups))
    plan = read_plan(from_file, names) if from_file else None

    async def work(admin: Admin) -> list[PlannedOffset]:
        planned = await _prepare(admin, names, scope, target, plan)
        if execute:
            await _carry_out(admin, planned)
        return planned

    planned = with_admin(bootstrap, work, timeout_ms=timeout_ms)
    _report(planned, names, execute=execute, export=export, as_json=as_json)
    if any(one.error for one in planned):
        raise typer.Exit(1)


def _check_deed(dry_run: bool, execute: bool, export: bool, as_json: bool) -> None:
    if dry_run and execute:
        raise typer.BadParameter("give --dry-run or --execute, not both")
    if export and as_json:
        raise typer.BadParameter("--export prints CSV; leave out --json")


def _scope(all_topics: bool, topics: list[str] | None, from_file: str | None) -> Scope | None:
    """Return the named partitions; None: all that the group has committed or the file lists."""
    if all_topics and topics:
        raise typer.BadParameter("give --all-topics or --topic, not both")
    if not (all_topics or topics or from_file):
        raise typer.BadParameter("say which partitions: --all-topics, or --topic TOPIC[:0,1]")
    return parse_scope(topics) if topics else None


def _target(
    to_earliest: bool,
    to_latest: bool,
    to_current: bool,
    to_datetime: str | None,
    by_duration: str | None,
    shift_by: int | None,
    to_offset: int | None,
    from_file: str | None,
) -> Target:
    from ottla.cli.groups.reset_plan import Target
    from ottla.cli.moments import now_ms

    targets: list[Target] = []
    if to_earliest:
        targets.append(Target("earliest"))
    if to_latest:
        targets.append(Target("latest"))
    if to_current:
        targets.append(Target("current"))
    if to_datetime is not None:
        targets.append(Target("time", durations.parse_datetime_ms(to_datetime, "--to-datetime")))
    if by_duration is not None:
        length_ms = durations.parse_duration_ms(by_duration, "--by-duration")
        targets.append(Target("time", now_ms() - length_ms))
    if shift_by is not None:
        targets.append(Target("shift", shift_by))
    if to_offset is not None:
        targets.append(Target("offset", to_offset))
    if from_file is not None:
        targets.append(Target("file"))
    if len(targets) != 1:
        raise typer.BadParameter(f"say where to, in one way: {TARGETS}")
    return targets[0]


async def _prepare(
    admin: Admin, groups: list[str], scope: Scope | None, target: Target, plan: Plan | None
) -> list[PlannedOffset]:
    """Plan the reset of all groups; raise before any change if one of them cannot be reset."""
    from ottla.cli.groups.reset_plan import plan_reset

    await _check_inactive(admin, groups)
    named = None if scope is None or plan is not None else await partitions_of(admin, scope)
    planned: list[PlannedOffset] = []
    for group in groups:
        committed = await admin.list_group_offsets(group)
        from_file = plan[group] if plan is not None else {}
        places = _places(group, committed, named, scope, from_file, plan is not None)
        planned += await plan_reset(admin, group, committed, places, target, from_file)
    return planned


def _places(
    group: str,
    committed: Committed,
    named: list[TopicPartition] | None,
    scope: Scope | None,
    from_file: dict[TopicPartition, int],
    by_file: bool,
) -> list[TopicPartition]:
    from ottla.client.errors import ClientError

    if by_file:
        places = [one for one in from_file if scope is None or covers(scope, one)]
        if not places:
            raise ClientError(f"the file has no offsets of group {group!r} for these topics")
        return places
    if named is not None:
        return named
    if not committed:
        raise ClientError(
            f"group {group!r} has committed no offsets that could be reset; name topics with "
            "--topic instead of --all-topics"
        )
    return list(committed)


async def _check_inactive(admin: Admin, groups: list[str]) -> None:
    from ottla.cli.output import print_note
    from ottla.client.errors import GroupActive
    from ottla.protocol.errors import ErrorCode, KafkaError

    for group, found in (await admin.describe_groups(groups)).items():
        if not isinstance(found, KafkaError):
            if found.active:
                raise GroupActive(group, found.state, len(found.members))
        elif found.code is ErrorCode.GROUP_ID_NOT_FOUND:
            print_note(f"ottla: there is no group {group!r} yet; these are its first offsets")
        else:
            raise found


async def _carry_out(admin: Admin, planned: list[PlannedOffset]) -> None:
    """Commit the plan; an error for a partition is stored in its entry."""
    from ottla.client.errors import GroupActive

    by_group: dict[str, list[PlannedOffset]] = {}
    for one in planned:
        by_group.setdefault(one.group, []).append(one)
    for group, own in by_group.items():
        try:
            outcome = await admin.alter_group_offsets(group, {one.place: one.offset for one in own})
        except GroupActive as late:
            # The groups before this one are done and must be reported.
            for one in own:
                one.error = str(late)
            continue
        for one in own:
            error = outcome.get(one.place)
            one.error = str(error) if error else None


def _report(
    planned: list[PlannedOffset], groups: list[str], *, execute: bool, export: bool, as_json: bool
) -> None:
    from ottla.cli.groups.reset_file import write_plan
    from ottla.cli.output import print_exactly, print_json, print_note, print_table

    for one in planned:
        for text in (one.warning, one.error):
            if text and not as_json:
                print_note(f"ottla: {one.group}, {one.place}: {text}")
    if as_json:
        print_json([_entry(one, execute) for one in planned])
        return
    if export:
        rows = [(one.group, one.place, one.offset) for one in planned if not one.error]
        print_exactly(write_plan(rows, with_group=len(groups) > 1))
    else:
        print_table(
            ("group", "topic", "partition", "committed", "new offset"),
            [
                (one.group, *one.place, one.committed, "refused" if one.error else one.offset)
                for one in planned
            ],
        )
    if execute:
        print_note(f"{sum(not one.error for one in planned)} offset(s) set.")
    elif not export:
        print_note("Dry run: nothing was changed. Add --execute to set these offsets.")


def _entry(one: PlannedOffset, execute: bool) -> dict[str, Any]:
    return {
        "group": one.group,
        "topic": one.place.topic,
        "partition": one.place.partition,
        "committed": one.committed,
        "offset": one.offset,
        "executed": execute and one.error is None,
        "warning": one.warning,
        "error": one.error,
    }

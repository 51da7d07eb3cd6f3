"""`ottla topics reassign`: moves partitions to other brokers while clients go on."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.cli.given_file import CannotRead
from ottla.cli.options import (
    BOOTSTRAP_DEFAULT,
    TIMEOUT_MS_DEFAULT,
    Bootstrap,
    Json,
    TimeoutMs,
)

if TYPE_CHECKING:
    from ottla.cli.topics.reassign_work import Progress
    from ottla.client.admin.admin import Admin
    from ottla.client.admin.reassignments import Reassignment
    from ottla.client.values import TopicPartition

    Plan = Mapping[TopicPartition, Sequence[int]]

NOTE_EVERY = 10
"""Number of looks between two lines of progress, if no bar can be drawn."""


PlanFile = Annotated[
    Path | None,
    typer.Option("--plan", metavar="FILE", help="A plan as JSON, instead of a made one."),
]
ThrottleRate = Annotated[
    int | None,
    typer.Option(
        "--throttle", metavar="BYTES", min=1, help="At most so many bytes a second and broker."
    ),
]


def reassign(
    topics: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TOPIC[:PARTITIONS]]...", show_default=False, help="orders, or orders:0,2-4."
        ),
    ] = None,
    brokers: Annotated[
        str | None, typer.Option("--brokers", metavar="ID,...", help="Where they are to be.")
    ] = None,
    replication_factor: Annotated[
        int | None, typer.Option("--replication-factor", "-r", min=1, help="As many copies.")
    ] = None,
    plan: PlanFile = None,
    execute: Annotated[
        bool, typer.Option("--execute", help="Do it; without this the plan is only shown.")
    ] = False,
    throttle: ThrottleRate = None,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Wait for the end, with --execute.")
    ] = True,
    progress: Annotated[
        bool, typer.Option("--progress", help="Watch moves until they are done, then clean up.")
    ] = False,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Stop moves that are under way and undo them.")
    ] = False,
    listed: Annotated[
        bool, typer.Option("--list", help="Show the moves that are under way.")
    ] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout_ms: TimeoutMs = TIMEOUT_MS_DEFAULT,
    as_json: Json = False,
) -> None:
    """Move partitions to other brokers while clients go on; without --execute it shows the plan.

    The plan moves as little as it can, spreads copies over brokers and racks, and has the form of
    Kafka's kafka-reassign-partitions. --execute waits for the end, then removes the throttle and
    makes the first replica of each partition its leader; after --no-wait, --progress does this.

    Examples:

    - `ottla topics reassign orders --brokers 1,2,3,4`

    - `ottla topics reassign orders clicks --brokers 2,3,4 --execute --throttle 50000000`

    - `ottla topics reassign --list`

    - `ottla topics reassign --cancel orders`
    """
    job = _Job(topics or [], throttle=throttle, wait=wait, as_json=as_json)
    work: Callable[[Admin], Any]
    if sum((execute, progress, cancel, listed)) > 1:
        raise typer.BadParameter("only one of --execute, --progress, --cancel and --list")
    if listed:
        work = job.show_moves
    elif cancel:
        work = job.cancel
    elif progress:
        work = job.finish
    else:
        make = _plan_from(plan, topics, brokers, replication_factor)
        work = job.execute_with(make) if execute else job.show_plan_with(make)
    _carry_out(job, work, bootstrap, timeout_ms)


def _carry_out(job: _Job, work: Callable[[Admin], Any], bootstrap: str, timeout_ms: int) -> None:
    from ottla.cli.output import print_note
    from ottla.cli.session import with_admin

    try:
        with_admin(bootstrap, work, timeout_ms=timeout_ms)
    except KeyboardInterrupt:
        if job.begun:
            print_note(
                "The move goes on without this command. `ottla topics reassign --progress` watches "
                "it and takes the throttle away at its end, --list shows it, --cancel undoes it."
            )
        raise


def _plan_from(
    path: Path | None,
    topics: list[str] | None,
    brokers: str | None,
    replication_factor: int | None,
) -> Callable[[Admin], Any]:
    """Return the function that makes (current placement, plan)."""
    from ottla.cli.topics.reassign_plan import BadPlan, from_json

    if path is not None:
        if topics or brokers or replication_factor:
            raise typer.BadParameter("--plan already says what goes where")
        try:
            given = from_json(json.loads(path.read_text()))
        except OSError as error:
            raise CannotRead(path, error) from error
        except (BadPlan, ValueError) as error:  # no JSON, or no text
            raise typer.BadParameter(f"{path}: {error}", param_hint="--plan") from error
        return lambda admin: _given(admin, given)
    if not topics:
        raise typer.BadParameter("name topics, or a plan with --plan FILE")
    if brokers is None and replication_factor is None:
        raise typer.BadParameter("--brokers or --replication-factor says what is to change")
    ids = None if brokers is None else _ids(brokers)
    return lambda admin: _made(admin, topics, ids, replication_factor)


def _ids(text: str) -> list[int]:
    try:
        return [int(one) for one in text.split(",")]
    except ValueError:
        raise typer.BadParameter(
            f"{text!r}: broker ids like 1,2,3", param_hint="--brokers"
        ) from None


async def _given(admin: Admin, plan: Plan) -> tuple[Plan, Plan]:
    from ottla.cli.topics.reassign_work import placement_of

    return await placement_of(admin, plan), plan


async def _made(
    admin: Admin, topics: list[str], ids: list[int] | None, replication_factor: int | None
) -> tuple[Plan, Plan]:
    from ottla.cli.topics.reassign_plan import BadPlan, make_plan
    from ottla.cli.topics.reassign_work import placement_of
    from ottla.cli.topics.scopes import parse_scope, partitions_of

    current = await placement_of(admin, await partitions_of(admin, parse_scope(topics, "TOPIC")))
    if moving := await admin.list_partition_reassignments(current):
        raise typer.BadParameter(
            f"{min(moving)} is moving already ({len(moving)} of {len(current)} partitions are): "
            "watch it to its end with --progress, or call it off with --cancel first"
        )
    there = {
        broker.node_id: broker.rack
        for broker in (await admin.describe_cluster()).brokers.values()
        if not broker.is_fenced
    }
    wanted = sorted(there) if ids is None else ids
    if unknown := [broker for broker in wanted if broker not in there]:
        raise typer.BadParameter(f"no live broker {unknown[0]}; `ottla cluster` lists them")
    try:
        plan = make_plan(current, {broker: there[broker] for broker in wanted}, replication_factor)
    except BadPlan as error:
        raise typer.BadParameter(str(error)) from error
    return current, plan


class _Job:
    def __init__(
        self, topics: list[str], *, throttle: int | None, wait: bool, as_json: bool
    ) -> None:
        self._topics = topics
        self._throttle = throttle
        self._wait = wait
        self._as_json = as_json
        self.begun = False
        """True if requested or watched moves are under way."""

    @property
    def _named(self) -> set[str] | None:
        """The topics that were named; None for all."""
        from ottla.cli.topics.scopes import parse_scope

        return set(parse_scope(self._topics, "TOPIC")) or None

    # --- plans ----------------------------------------------------------------------------------

    def show_plan_with(self, make: Callable[[Admin], Any]) -> Callable[[Admin], Any]:
        async def work(admin: Admin) -> None:
            from ottla.cli.output import print_json, print_note
            from ottla.cli.topics import reassign_plan

            current, plan = await make(admin)
            moves = reassign_plan.changes(current, plan)
            if self._as_json:
                print_json(reassign_plan.as_json(moves))
                return
            _print_plan(current, moves)
            if moves:
                print_note("--execute does it; --json > FILE keeps it for --plan FILE.")

        return work

    def execute_with(self, make: Callable[[Admin], Any]) -> Callable[[Admin], Any]:
        async def work(admin: Admin) -> None:
            from ottla.cli.output import deed
            from ottla.cli.topics import reassign_plan, reassign_work

            current, plan = await make(admin)
            moves = reassign_plan.changes(current, plan)
            if not moves:
                deed(self._as_json, _outcome(moves, done=True), "Everything is where it should be.")
                return
            if self._throttle is not None:
                await reassign_work.set_throttle(admin, current, moves, self._throttle)
            self.begun = True
            await reassign_work.begin(admin, moves)
            if self._wait:
                await self._until_done(admin, moves)
            else:
                text = f"{len(moves)} partition(s) are moving; watch them with --progress."
                deed(self._as_json, _outcome(moves, done=False), text)

        return work

    # --- moves ----------------------------------------------------------------------------------

    async def show_moves(self, admin: Admin) -> None:
        from ottla.cli.output import print_json, print_table

        moves = await self._under_way(admin)
        if self._as_json:
            print_json([_move(one, move) for one, move in sorted(moves.items())])
            return
        print_table(
            ("partition", "replicas", "adding", "removing"),
            [(str(one), m.replicas, m.adding, m.removing) for one, m in sorted(moves.items())],
        )

    async def cancel(self, admin: Admin) -> None:
        from ottla.cli.output import deed
        from ottla.cli.topics import reassign_work

        moves = await self._under_way(admin)
        if moves:
            await reassign_work.begin(admin, dict.fromkeys(moves))
        await reassign_work.clear_throttle(admin, self._named)
        told = {"cancelled": [str(one) for one in sorted(moves)]}
        deed(self._as_json, told, f"{len(moves)} move(s) cancelled.")

    async def finish(self, admin: Admin) -> None:
        moves = await self._under_way(admin)
        self.begun = bool(moves)
        await self._until_done(admin, dict.fromkeys(moves, ()))

    async def _under_way(self, admin: Admin) -> Mapping[TopicPartition, Reassignment]:
        from ottla.cli.topics.scopes import parse_scope, partitions_of

        if not self._topics:
            return await admin.list_partition_reassignments()
        wanted = await partitions_of(admin, parse_scope(self._topics, "TOPIC"))
        return await admin.list_partition_reassignments(wanted)

    async def _until_done(self, admin: Admin, moves: Plan) -> None:
        from ottla.cli.output import deed
        from ottla.cli.topics import reassign_work

        with _shown(len(moves)) as report:
            await reassign_work.watch(admin, moves, report)
        await reassign_work.clear_throttle(admin, self._named)
        await reassign_work.check_arrived(admin, moves)
        await reassign_work.let_first_lead(admin, moves)
        deed(self._as_json, _outcome(moves, done=True), f"{len(moves)} partition(s) moved.")


@contextmanager
def _shown(count: int) -> Iterator[Callable[[Progress], None]]:
    """Show progress as a bar; if none can be drawn, a line from time to time."""
    from ottla.cli.output import human_bytes, print_note
    from ottla.cli.progress import progress

    looks = copied = 0
    advance: Any = None
    with ExitStack() as stack:

        def report(now: Progress) -> None:
            nonlocal looks, copied, advance
            if not sys.stderr.isatty():
                if looks % NOTE_EVERY == 0 and now.moving:
                    done, total = human_bytes(now.bytes_copied), human_bytes(now.bytes_total)
                    print_note(f"{now.moving} of {count} partition(s) moving, {done} of {total}")
                looks += 1
                return
            if advance is None:
                what = f"moving {count} partition(s), bytes"
                advance = stack.enter_context(progress(what, now.bytes_total))
            advance(now.bytes_copied - copied)
            copied = now.bytes_copied

        yield report


def _print_plan(current: Plan, moves: Plan) -> None:
    from ottla.cli.output import print_line, print_table

    if not moves:
        print_line("Everything is where it should be.")
        return
    print_table(
        ("partition", "now", "then"),
        [(str(one), list(current[one]), list(replicas)) for one, replicas in sorted(moves.items())],
    )


def _outcome(moves: Plan, *, done: bool) -> dict[str, Any]:
    return {"partitions": [str(one) for one in sorted(moves)], "done": done}


def _move(one: TopicPartition, move: Reassignment) -> dict[str, Any]:
    return {
        "topic": one.topic,
        "partition": one.partition,
        "replicas": list(move.replicas),
        "adding": list(move.adding),
        "removing": list(move.removing),
    }

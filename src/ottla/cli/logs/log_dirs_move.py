"""`ottla log-dirs move`: moves partitions to another data folder of their broker, with progress."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from ottla.cli.options import (
    BOOTSTRAP_DEFAULT,
    TIMEOUT_MS_DEFAULT,
    Bootstrap,
    Json,
    TimeoutMs,
)

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.client.admin.log_dirs import ReplicaOf
    from ottla.client.values import TopicPartition

POLL_S = 0.25


def move(
    topics: Annotated[
        list[str],
        typer.Argument(
            metavar="TOPIC[:PARTITIONS]...", show_default=False, help="orders, or orders:0,2-4."
        ),
    ],
    to: Annotated[str, typer.Option("--to", metavar="DIR", help="A data folder of the broker.")],
    brokers: Annotated[
        list[int] | None,
        typer.Option(
            "--broker", metavar="ID", help="Only on these; else wherever there is such a folder."
        ),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the end.")] = True,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout_ms: TimeoutMs = TIMEOUT_MS_DEFAULT,
    as_json: Json = False,
) -> None:
    """Move partitions between the data folders of a broker, while they are in use.

    Moving a partition to the folder it is in cancels its move.

    Examples:

    - `ottla log-dirs move orders:0,2-4 --to /disk2/kafka`

    - `ottla log-dirs move orders --to /disk2/kafka --broker 1 --no-wait`
    """
    from ottla.cli.output import deed
    from ottla.cli.session import with_admin

    async def work(admin: Admin) -> list[ReplicaOf]:
        begun = await _begin(admin, topics, to, brokers)
        if wait:
            await _watch(admin, begun, to)
        return begun

    begun = with_admin(bootstrap, work, timeout_ms=timeout_ms)
    told = {
        "to": to,
        "done": wait,
        "replicas": [
            {"topic": one.topic, "partition": one.partition, "broker": one.broker} for one in begun
        ],
    }
    what = "moved to" if wait else "on the way to"
    deed(as_json, told, f"{len(begun)} replica(s) {what} {to}.")


async def _begin(
    admin: Admin, topics: list[str], to: str, brokers: list[int] | None
) -> list[ReplicaOf]:
    from ottla.cli.topics.scopes import parse_scope, partitions_of

    wanted = await partitions_of(admin, parse_scope(topics, "TOPIC"))
    replicas = await _replicas_beside(admin, wanted, to, brokers)
    if not replicas:
        raise typer.BadParameter(
            f"no broker with a copy of these partitions has a data folder {to}: `ottla log-dirs` "
            "shows the folders there are",
            param_hint="--to",
        )
    outcome = await admin.alter_replica_log_dirs(dict.fromkeys(replicas, to))
    for error in outcome.values():
        if error is not None:
            raise error
    return sorted(replicas)


async def _replicas_beside(
    admin: Admin, wanted: Sequence[TopicPartition], to: str, brokers: list[int] | None
) -> list[ReplicaOf]:
    """Return the replicas on brokers that have the folder."""
    from ottla.client.admin.log_dirs import ReplicaOf

    found = await admin.describe_log_dirs(brokers or None, partitions=wanted)
    able = {folder.broker for folder in found if folder.path == to}
    return list(
        dict.fromkeys(
            ReplicaOf(replica.topic, replica.partition, folder.broker)
            for folder in found
            for replica in folder.replicas
            if folder.broker in able and not replica.is_future
        )
    )


class _Seen(NamedTuple):
    arrived: set[ReplicaOf]
    moving: set[ReplicaOf]
    copied: int
    total: int


async def _watch(admin: Admin, replicas: Sequence[ReplicaOf], to: str) -> None:
    """Wait until all have arrived. A replica that has neither arrived nor is moving has failed."""
    from ottla.cli.progress import progress

    seen = await _read_progress(admin, replicas, to)
    done = 0
    with progress(f"moving {len(replicas)} replica(s), bytes", seen.total) as advance:
        while not seen.arrived.issuperset(replicas):
            lost = set(replicas) - seen.arrived - seen.moving
            if lost:
                # It may have arrived between the looks at two folders.
                seen = await _read_progress(admin, replicas, to)
                lost &= set(replicas) - seen.arrived - seen.moving
            if lost:
                one = min(lost)
                raise typer.BadParameter(
                    f"{one.topic}-{one.partition} on broker {one.broker} does not move any more: "
                    "the move was called off, or a disk failed; the broker's log says which",
                    param_hint="--to",
                )
            advance(max(0, seen.copied - done))
            done = max(done, seen.copied)
            await asyncio.sleep(POLL_S)
            seen = await _read_progress(admin, replicas, to)


async def _read_progress(admin: Admin, replicas: Sequence[ReplicaOf], to: str) -> _Seen:
    from ottla.client.admin.log_dirs import ReplicaOf
    from ottla.client.values import TopicPartition

    partitions = {TopicPartition(one.topic, one.partition) for one in replicas}
    seen = _Seen(set(), set(), 0, 0)
    copied = total = 0
    brokers = sorted({one.broker for one in replicas})
    for folder in await admin.describe_log_dirs(brokers, partitions=partitions):
        for found in folder.replicas:
            one = ReplicaOf(found.topic, found.partition, folder.broker)
            if found.is_future and folder.path == to:
                seen.moving.add(one)
                copied += found.size_bytes
            elif not found.is_future:
                total += found.size_bytes
                if folder.path == to:
                    seen.arrived.add(one)
                    copied += found.size_bytes
    return seen._replace(copied=copied, total=total)

"""`ottla cluster add-node` and `retire`: add and remove brokers of a running `ottla start --nodes`.

They change its `nodes.properties`; the command that runs the nodes notices that, and follows.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.cli.consent import want_consent
from ottla.cli.options import TIMEOUT_MS_DEFAULT, FolderBootstrap, Json, TimeoutMs, Yes

if TYPE_CHECKING:
    from ottla.cli.nodes.folder import NodesFolder
    from ottla.client.admin.admin import Admin

POLL_S = 0.1

Data = Annotated[
    Path, typer.Option("--data", "-d", metavar="DIR", help="The folder of `ottla start --nodes`.")
]
BrokerId = Annotated[int, typer.Argument(metavar="BROKER", min=0, show_default=False)]


def add_node(
    data: Data = Path("data"),
    bootstrap: FolderBootstrap = None,
    timeout_ms: TimeoutMs = TIMEOUT_MS_DEFAULT,
    as_json: Json = False,
) -> None:
    """Add a broker to a running `ottla start --nodes`; it is empty until partitions are moved.

    Example:

    - `ottla cluster add-node --data ./data`
    """
    from ottla.cli.nodes.folder import client_addresses, with_another
    from ottla.cli.output import deed
    from ottla.cli.session import with_admin

    folder = _folder_of(data)
    where = bootstrap or client_addresses(folder)

    async def work(admin: Admin) -> int:
        await _same_cluster(admin, folder, where)
        number = with_another(folder).count
        await _until(admin, number, timeout_ms, is_there=True)
        return number

    number = with_admin(where, work, timeout_ms=timeout_ms)
    text = f"Broker {number} is there. `ottla topics reassign` moves partitions to it."
    deed(as_json, {"added": number}, text)


def retire(
    broker: BrokerId,
    data: Data = Path("data"),
    yes: Yes = False,
    bootstrap: FolderBootstrap = None,
    timeout_ms: TimeoutMs = TIMEOUT_MS_DEFAULT,
    as_json: Json = False,
) -> None:
    """Stop a broker of a running `ottla start --nodes` for good, and forget it. Asks first.

    Move its replicas to other brokers first. A node that is a voter stays one, as a controller
    only.

    Example:

    - `ottla cluster retire 1 --data ./data`
    """
    from ottla.cli.nodes.folder import FolderUnusable, client_addresses, without
    from ottla.cli.output import deed
    from ottla.cli.session import with_admin

    folder = _folder_of(data)
    where = bootstrap or client_addresses(folder)
    want_consent(f"Stop broker {broker} for good, and forget it?", yes)

    async def work(admin: Admin) -> None:
        await _same_cluster(admin, folder, where)
        if objection := await still_keeps(admin, broker):
            raise typer.BadParameter(objection)
        try:
            without(folder, broker)
        except FolderUnusable as error:
            raise typer.BadParameter(str(error)) from error
        await _until(admin, broker, timeout_ms, is_there=False)
        await admin.unregister_broker(broker)

    with_admin(where, work, timeout_ms=timeout_ms)
    votes = ", and only votes from now on" if folder.votes(broker) else ""
    deed(as_json, {"retired": broker}, f"Broker {broker} has retired{votes}.")


async def still_keeps(admin: Admin, broker: int) -> str | None:
    """Return why a broker cannot go yet (it still has replicas) and how to move them, or None."""
    from ottla.protocol.errors import KafkaError

    keeps = {
        topic.name: topic.replication_factor
        for topic in (await admin.describe_topics()).values()
        if not isinstance(topic, KafkaError)
        and any(broker in partition.replicas for partition in topic.partitions)
    }
    if not keeps:
        return None
    there = (await admin.describe_cluster()).brokers
    others = [str(one) for one in sorted(there) if one != broker and not there[one].is_fenced]
    names = " ".join(sorted(keeps)[:5]) + (" ..." if len(keeps) > 5 else "")
    problem = f"broker {broker} still keeps replicas of {len(keeps)} topic(s)"
    if (copies := max(keeps.values())) > (run := len(others)):
        others += ["NEW"] * (copies - run)
        advice = (
            f"{copies} copies need {copies} other brokers, and {run} run: add {copies - run} "
            "first (`ottla cluster add-node --data DIR`), then move them"
        )
    else:
        advice = "move them first"
    return (
        f"{problem}; {advice}: "
        f"`ottla topics reassign {names} --brokers {','.join(others)} --execute`"
    )


def _folder_of(data: Path) -> NodesFolder:
    from ottla.cli.nodes.folder import FolderUnusable, is_nodes_folder, read

    path = data.resolve()
    try:
        if not is_nodes_folder(path):
            raise FolderUnusable(f"{path} is no folder of `ottla start --nodes`")
        return read(path)
    except FolderUnusable as error:
        raise typer.BadParameter(str(error), param_hint="--data") from error


async def _same_cluster(admin: Admin, folder: NodesFolder, where: str) -> None:
    there: Any = (await admin.describe_cluster()).cluster_id
    if there != folder.cluster_id:
        raise typer.BadParameter(
            f"{folder.path} is of cluster {folder.cluster_id}, and {where} leads to {there}"
        )


async def _until(admin: Admin, broker: int, timeout_ms: int, *, is_there: bool) -> None:
    """Wait until a broker serves clients, or no longer does."""
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            while True:
                found = (await admin.describe_cluster()).brokers.get(broker)
                if (found is not None and not found.is_fenced) == is_there:
                    return
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        state = "is not there" if is_there else "still runs"
        raise typer.BadParameter(
            f"broker {broker} {state} after {timeout_ms} ms: does `ottla start --nodes` run, and "
            "what does it say?"
        ) from None

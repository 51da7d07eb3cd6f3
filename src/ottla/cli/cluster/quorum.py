"""`ottla quorum`: shows the controllers and their progress, and changes the voters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.cli.consent import want_consent
from ottla.cli.options import (
    BOOTSTRAP_DEFAULT,
    TIMEOUT_MS_DEFAULT,
    Bootstrap,
    BootstrapController,
    Json,
    TimeoutMs,
    Yes,
    new_app,
)

if TYPE_CHECKING:
    from ottla.cli.cluster.quorum_views import QuorumView
    from ottla.client.admin.admin import Admin
    from ottla.client.admin.quorum import DescribedQuorum, QuorumMember
    from ottla.client.network.cluster import Cluster

app = new_app("Show the controllers, and change who votes.")

VoterId = Annotated[int, typer.Argument(metavar="NODE", min=0, show_default=False)]


@app.command()
def describe(
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    bootstrap_controller: BootstrapController = None,
    timeout_ms: TimeoutMs = TIMEOUT_MS_DEFAULT,
    as_json: Json = False,
) -> None:
    """Show who leads the controllers, who votes, and how far everyone is behind.

    Examples:

    - `ottla quorum describe`

    - `ottla quorum describe --json`

    - `ottla quorum describe --bootstrap-controller host1:9093`
    """
    from ottla.cli.cluster.quorum_views import ask_all, known_controllers
    from ottla.cli.output import print_fields, print_json, print_table
    from ottla.cli.session import with_cluster
    from ottla.client.admin.admin import Admin
    from ottla.client.network.controllers import Controllers
    from ottla.runtime.clock import SystemClock

    async def ask(cluster: Cluster) -> DescribedQuorum | list[QuorumView]:
        if isinstance(cluster, Controllers):
            return await ask_all(cluster, await known_controllers(cluster))
        there = await Admin.over(cluster).describe_cluster()
        return await ask_all(cluster, there.brokers.values())

    quorum = with_cluster(bootstrap, ask, timeout_ms=timeout_ms, controllers=bootstrap_controller)
    if isinstance(quorum, list):
        _tell_of_no_majority(quorum, as_json=as_json)
        raise typer.Exit(1)
    members = members_of(quorum, SystemClock().wall_ms())
    if as_json:
        print_json(
            {
                "leader": quorum.leader,
                "leader_epoch": quorum.leader_epoch,
                "high_watermark": quorum.high_watermark,
                "members": members,
            }
        )
        return
    print_fields(
        [
            ("leader", quorum.leader),
            ("epoch", quorum.leader_epoch),
            ("high watermark", quorum.high_watermark),
            ("largest lag of a voter", max((m["lag"] for m in members if m["votes"]), default=0)),
        ]
    )
    columns = ("node", "role", "end offset", "lag", "fetched ms ago", "caught up ms ago", "at")
    names = ("node", "role", "end_offset", "lag", "fetched_ms_ago", "caught_up_ms_ago", "at")
    print_table(columns, [[member[name] for name in names] for member in members])


def _tell_of_no_majority(views: list[QuorumView], *, as_json: bool) -> None:
    from ottla.cli.cluster.quorum_views import told
    from ottla.cli.output import print_json, print_line

    if as_json:
        print_json({"leader": None, "nodes_without_majority": told(views)})
        return
    print_line("! no majority of the controllers")
    for view in views:
        print_line(f"! {view.line}")


def members_of(quorum: DescribedQuorum, now_ms: int) -> list[dict[str, Any]]:
    """Return a row for each voter and observer."""

    def row(member: QuorumMember, role: str) -> dict[str, Any]:
        is_leader = member.node_id == quorum.leader
        listeners = quorum.nodes.get(member.node_id, {})
        return {
            "node": member.node_id,
            "role": "leader" if is_leader else role,
            "votes": role == "voter",
            "directory_id": member.directory_id,
            "end_offset": member.log_end_offset,
            "lag": quorum.lag_of(member),
            "fetched_ms_ago": None if is_leader else _ago(member.last_fetch_ms, now_ms),
            "caught_up_ms_ago": None if is_leader else _ago(member.last_caught_up_ms, now_ms),
            "at": [f"{name}://{host}:{port}" for name, (host, port) in listeners.items()],
        }

    return [row(member, "voter") for member in quorum.voters] + [
        row(member, "observer") for member in quorum.observers
    ]


def _ago(at_ms: int | None, now_ms: int) -> int | None:
    return None if at_ms is None else max(0, now_ms - at_ms)


@app.command("add-voter")
def add_voter(
    node: VoterId,
    directory_id: Annotated[
        str,
        typer.Option(
            "--directory-id", help="Of its metadata log; `ottla storage info` shows it there."
        ),
    ],
    endpoints: Annotated[
        list[str],
        typer.Option("--endpoint", metavar="NAME://HOST:PORT", help="Its controller listener."),
    ],
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    bootstrap_controller: BootstrapController = None,
    timeout_ms: TimeoutMs = TIMEOUT_MS_DEFAULT,
    as_json: Json = False,
) -> None:
    """Make a controller a voter; it must be running and follow the leader.

    Example:

    - `ottla quorum add-voter 4 --directory-id kXSyEMBiQkKj0yEAzPXpRg --endpoint CONTROLLER://h4:9093`
    """
    from ottla.cli.output import deed
    from ottla.cli.session import with_admin

    where = dict(_endpoint(text) for text in endpoints)
    with_admin(
        bootstrap,
        lambda admin: admin.add_raft_voter(node, directory_id, where),
        timeout_ms=timeout_ms,
        controllers=bootstrap_controller,
    )
    deed(as_json, {"added": node}, f"Node {node} votes now.")


def _endpoint(text: str) -> tuple[str, tuple[str, int]]:
    from ottla.client.errors import BadAddress
    from ottla.client.network.addresses import parse_address

    name, _, address = text.partition("://")
    try:
        if not name:
            raise BadAddress(text)
        return name, parse_address(address)
    except BadAddress:
        raise typer.BadParameter(
            f"{text!r} is no listener; write CONTROLLER://host:9093", param_hint="--endpoint"
        ) from None


@app.command("remove-voter")
def remove_voter(
    node: VoterId,
    directory_id: Annotated[
        str | None,
        typer.Option("--directory-id", help="Needed if two voters have the same number."),
    ] = None,
    yes: Yes = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    bootstrap_controller: BootstrapController = None,
    timeout_ms: TimeoutMs = TIMEOUT_MS_DEFAULT,
    as_json: Json = False,
) -> None:
    """Remove a controller from the voters; stop it only after this. Asks first.

    Example:

    - `ottla quorum remove-voter 4`
    """
    from ottla.cli.output import deed
    from ottla.cli.session import with_admin

    want_consent(f"Let node {node} no longer vote?", yes)

    async def work(admin: Admin) -> None:
        directory = directory_id or _directory(await admin.describe_metadata_quorum(), node)
        await admin.remove_raft_voter(node, directory)

    with_admin(bootstrap, work, timeout_ms=timeout_ms, controllers=bootstrap_controller)
    deed(as_json, {"removed": node}, f"Node {node} votes no longer.")


def _directory(quorum: DescribedQuorum, node: int) -> str:
    found = [voter.directory_id for voter in quorum.voters if voter.node_id == node]
    if len(found) != 1 or found[0] is None:
        voters = sorted({voter.node_id for voter in quorum.voters})
        problem = (
            "several voters" if len(found) > 1 else "no voter" if not found else "an old voter"
        )
        raise typer.BadParameter(
            f"{problem} {node}; voters are {voters}. --directory-id names one for sure"
        )
    return found[0]

"""`ottla storage`: prepares the data folders of a node and shows them. Options are Kafka's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from ottla.cli.given_file import CannotRead
from ottla.cli.options import Json, new_app, parse_pairs

if TYPE_CHECKING:
    from ottla.cli.nodes.storage_plan import Found
    from ottla.config.broker import BrokerConfig

app = new_app("Prepare the data folders of a node, and look at them.")

Config: TypeAlias = Annotated[
    Path, typer.Option("--config", "-c", metavar="FILE", help="The node's server.properties.")
]


InitialControllers = Annotated[
    str | None,
    typer.Option(
        "--initial-controllers",
        "-I",
        metavar="ID@HOST:PORT:DIRECTORY,...",
        help="The first voters; give all nodes the same.",
    ),
]
NoInitialControllers = Annotated[
    bool,
    typer.Option(
        "--no-initial-controllers",
        "-N",
        help="The voters are found at controller.quorum.bootstrap.servers; this node may join "
        "them later.",
    ),
]


@app.command("format")
def format_(
    config: Config,
    cluster_id: Annotated[
        str,
        typer.Option(
            "--cluster-id",
            "-t",
            metavar="ID",
            help="The same for all nodes of the cluster: any text without blanks.",
        ),
    ],
    standalone: Annotated[
        bool, typer.Option("--standalone", "-s", help="This controller is the first voter, alone.")
    ] = False,
    initial_controllers: InitialControllers = None,
    no_initial_controllers: NoInitialControllers = False,
    ignore_formatted: Annotated[
        bool,
        typer.Option("--ignore-formatted", "-g", help="Leave formatted folders as they are."),
    ] = False,
    features: Annotated[
        list[str] | None,
        typer.Option(
            "--feature", "-f", metavar="NAME=LEVEL", help="The first level of a feature. Repeat."
        ),
    ] = None,
    add_scram: Annotated[
        list[str] | None,
        typer.Option(
            "--add-scram",
            "-S",
            metavar="MECHANISM=[name=USER,password=PASSWORD]",
            help="A user that can sign in from the beginning. Repeat.",
        ),
    ] = None,
) -> None:
    """Assign the data folders to a cluster and a node, before the node's first start.

    A single node needs no formatting: `ottla start` does it. Nodes of a cluster do.

    Examples:

    - `ottla storage format -t "$(ottla storage random-uuid)" -c server.properties --standalone`

    - `ottla storage format -t MkU3OEVBNTcwNTJENDM2Qg -c broker.properties -N`

    - `ottla storage format -t MkU3OEVBNTcwNTJENDM2Qg -c server.properties --standalone \\
    --add-scram 'SCRAM-SHA-512=[name=admin,password=secret]'`
    """
    from ottla.cli.nodes import storage_plan as plan
    from ottla.cli.nodes.add_scram import parse_users
    from ottla.cli.output import print_line

    settings = _read(config)
    if sum((standalone, initial_controllers is not None, no_initial_controllers)) > 1:
        raise typer.BadParameter(
            "--standalone, --initial-controllers and --no-initial-controllers exclude each other"
        )
    _check_cluster_id(cluster_id)
    try:
        voters = plan.parse_controllers(initial_controllers) if initial_controllers else []
        if standalone:
            voters = plan.standalone(settings)
        plan.check_quorum(settings, voters, no_initial_controllers)
        levels = plan.feature_levels(parse_pairs(features or [], "--feature"), bool(voters))
        users = parse_users(add_scram or [])
        told = plan.format_folders(
            settings, cluster_id, voters, levels, users, ignore_formatted=ignore_formatted
        )
    except plan.CannotFormat as error:
        raise _failure(str(error)) from error
    for line in told:
        print_line(line)


@app.command()
def info(config: Config, as_json: Json = False) -> None:
    """Show to which cluster and node the data folders belong, and problems with them.

    Exits with 1 if there are problems.
    """
    from ottla.cli.nodes import storage_plan as plan
    from ottla.cli.output import print_json

    found = plan.look(_read(config))
    if as_json:
        print_json(_as_json(found))
    else:
        _print(found)
    if found.problems:
        raise typer.Exit(1)


@app.command("random-uuid")
def random_uuid() -> None:
    """Print a new id, for a cluster or a folder."""
    from random import SystemRandom

    from ottla.cli.output import print_line
    from ottla.protocol.uuids import random_uuid, to_text

    print_line(to_text(random_uuid(SystemRandom())))


def _read(path: Path) -> BrokerConfig:
    from ottla.config.broker import BrokerConfig
    from ottla.config.errors import ConfigError
    from ottla.config.properties import PropertiesError, parse_properties

    try:
        return BrokerConfig.parse(parse_properties(path.read_text(encoding="utf-8"), str(path)))
    except OSError as error:
        raise CannotRead(path, error) from error
    except UnicodeDecodeError as error:
        raise _failure(f"cannot read {path}: not UTF-8 text") from error
    except (PropertiesError, ConfigError) as error:
        raise _failure(f"{path} cannot be used:\n{error}") from error


def _check_cluster_id(cluster_id: str) -> None:
    """Refuse an id that can only be a mistake, such as an unset shell variable. Kafka takes any
    text, also an empty one and blanks; it is better refused here than written to every folder."""
    if not cluster_id or not cluster_id.isprintable() or any(map(str.isspace, cluster_id)):
        raise typer.BadParameter(f"--cluster-id: {cluster_id!r} is no id; see `random-uuid`")


def _failure(text: str) -> typer.Exit:
    from ottla.cli.output import print_note

    print_note(f"ottla: {text}")
    return typer.Exit(1)


def _as_json(found: Found) -> dict[str, Any]:
    from ottla.protocol.uuids import to_text

    return {
        "folders": [
            {
                "folder": folder,
                "cluster_id": properties.cluster_id,
                "node_id": properties.node_id,
                "directory_id": to_text(properties.directory_id)
                if properties.directory_id
                else None,
            }
            for folder, properties in found.formatted.items()
        ],
        "problems": found.problems,
    }


def _print(found: Found) -> None:
    from ottla.cli.output import print_line, print_table

    rows = [
        (one["folder"], one["cluster_id"], one["node_id"], one["directory_id"])
        for one in _as_json(found)["folders"]
    ]
    if rows:
        print_table(("folder", "cluster", "node", "directory id"), rows)
    for problem in found.problems:
        print_line(f"problem: {problem}")
